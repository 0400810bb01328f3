"""The built wheel in a virtual environment of its own: install, a sweep of 1000 runs, a pandas table and a plot."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow.parquet
import pytest

import fullpipe

SCENARIO = {
    "name": "thousand",
    "cc": ["bbr3", "cubic"],
    "duration": "200ms",
    "seed": list(range(1, 126)),
    "path": {"rate": ["5mbit", "10mbit"], "rtt": ["10ms", "20ms"], "buffer": "1bdp", "loss": "0.1%"},
    "expect": ["goodput_mbps >= 1"],
}

PROGRAM = """
import sys
import fullpipe
results = fullpipe.sweep("thousand.toml", "python", progress=False)
frame = results.summary.to_pandas()
print(len(frame), frame.groupby("cc")["goodput_mbps"].mean().round(1).to_dict())
results.plot().write_html("plot.html", include_plotlyjs=False)
"""


def test_a_clean_environment_sweeps_as_the_command_does(command, tmp_path):
    wheel = os.environ.get("FULLPIPE_WHEEL")
    if not wheel:
        pytest.skip("FULLPIPE_WHEEL names no wheel")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{Path(wheel).resolve()}[pandas,plot]"], check=True, timeout=300)
    fullpipe.Scenario(**SCENARIO).save(tmp_path / "thousand.toml")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    args = [python, "-c", PROGRAM]
    done = subprocess.run(args, cwd=tmp_path, env=env, check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("1000 {'bbr3': "), done.stdout
    assert "plotly" in (tmp_path / "plot.html").read_text().lower()
    sweep = [command, "sweep", "thousand.toml", "--out", "command"]
    subprocess.run(sweep, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    for name in ("summary", "flows", "links"):
        ours, theirs = (pyarrow.parquet.read_table(tmp_path / of / f"{name}.parquet") for of in ("python", "command"))
        assert ours.num_rows == 1000 and ours.equals(theirs), name
    assert fullpipe.__version__ in subprocess.run(
        [sys.executable, "-c", "import importlib.metadata as m; print(m.version('fullpipe'))"],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout
