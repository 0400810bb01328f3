"""Surveys: the command's results, and an algorithm in Python."""

from __future__ import annotations

import json
import subprocess

import pytest

import fullpipe

SMALL = {"cc": ["bbr3", "cubic"], "paths": 4, "kinds": ["aqm", "policer"], "worst": 1, "progress": False}


def without_places(report):
    """The report without the names of its files."""
    worst = [{name: value for name, value in entry.items() if name != "file"} for entry in report["worst"]]
    return {**report, "worst": worst}


def test_a_survey_finds_what_the_command_does(command, tmp_path):
    args = ["--cc", "bbr3,cubic", "--paths", "4", "--kind", "aqm,policer", "--shrink", "1"]
    done = subprocess.run([command, "survey", *args, "--out", tmp_path / "command"], check=True, capture_output=True, timeout=300)
    assert done.returncode == 0
    report = fullpipe.survey(tmp_path / "python", **SMALL)
    of_command = json.loads((tmp_path / "command/survey.json").read_text())
    assert without_places(report) == without_places(of_command)
    assert report == json.loads((tmp_path / "python/survey.json").read_text())
    assert all((tmp_path / "python" / name).exists() for name in ("report.html", "runs.jsonl", "worst"))
    # It goes on in its directory, and leaves another survey's alone.
    assert fullpipe.survey(tmp_path / "python", **{**SMALL, "paths": 5})["paths"] == 5
    with pytest.raises(fullpipe.OutputError, match="another survey"):
        fullpipe.survey(tmp_path / "python", **SMALL, seed=2)


def test_an_algorithm_in_python_is_under_test(tmp_path):
    @fullpipe.algorithm("timid")
    class Timid:
        def on_ack(self, conn, sample):
            conn.cwnd = conn.min_window
            conn.pace_by_window(125)

    report = fullpipe.survey(tmp_path, **{**SMALL, "cc": ["timid", "reno"], "paths": 2})
    goodput = report["pairs"][0]["comparisons"][0]
    assert (goodput["measure"], goodput["paths"]) == ("goodput_mbps", 2) and goodput["short"] > 0
    assert report["worst"][0]["cc"] == "timid"

    @fullpipe.algorithm("raises")
    class Raises:
        def on_ack(self, conn, sample):
            raise ZeroDivisionError("in the algorithm")

    with pytest.raises(ZeroDivisionError, match="in the algorithm"):
        fullpipe.survey(tmp_path / "raises", **{**SMALL, "cc": ["raises", "reno"]})


def test_what_cannot_be_surveyed_is_refused(tmp_path):
    for wrong, says in [
        ({"cc": ["bbr3"]}, "nothing to be compared with"),
        ({"cc": ["bbr"]}, "unknown algorithm"),
        ({"kinds": ["wind"]}, "late-host"),
        ({"paths": 0}, "paths"),
    ]:
        with pytest.raises(fullpipe.ScenarioError, match=says):
            fullpipe.survey(tmp_path / "out", **{**SMALL, **wrong})
    with pytest.raises(TypeError, match="on='spark'"):
        fullpipe.survey(tmp_path / "out", on="spark")
    assert not (tmp_path / "out").exists()
