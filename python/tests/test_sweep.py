"""Sweeps: files equal to the command's, and what a sweep survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet
import pytest

import fullpipe

GRID = {
    "name": "grid",
    "cc": ["bbr3", "cubic"],
    "duration": "500ms",
    "seed": list(range(1, 6)),
    "path": {"rate": "10mbit", "rtt": ["10ms", "20ms"], "buffer": "1bdp"},
    "expect": ["goodput_mbps[bbr3] >= 5"],
}
FILES = ("summary.parquet", "flows.parquet", "links.parquet", "scenario.toml", "runs.jsonl")


def saved(directory, scenario):
    file = directory / f"{scenario['name']}.toml"
    fullpipe.Scenario(**scenario).save(file)
    return file


def test_a_sweep_writes_the_commands_files(command, tmp_path):
    file = saved(tmp_path, GRID)
    subprocess.run([command, "sweep", file, "--out", tmp_path / "command"], check=True, capture_output=True, timeout=300)
    results = fullpipe.sweep(file, tmp_path / "python", progress=False)
    for name in FILES:
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name
    assert results.summary.equals(pyarrow.parquet.read_table(tmp_path / "command/summary.parquet"))
    assert len(results) == 20 and results.met and results.series.num_rows == 0


def test_a_killed_sweep_goes_on_and_the_command_can_finish_it(command, tmp_path):
    long = {**GRID, "duration": "20s", "seed": list(range(1, 21))}
    file = saved(tmp_path, long)
    program = f"import fullpipe\nfullpipe.sweep({str(file)!r}, {str(tmp_path / 'out')!r}, jobs=1, progress=False)\n"
    journal = tmp_path / "out/runs.jsonl"
    for kill in (signal.SIGKILL, signal.SIGINT):
        before = journal.read_text().count("\n") if journal.exists() else 0
        with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 60
            while not (journal.exists() and journal.read_text().count("\n") >= before + 3):
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.01)
            os.kill(process.pid, kill)
            said = process.communicate(timeout=30)[1]
        assert process.returncode != 0
        assert not (tmp_path / "out/summary.parquet").exists()
    assert "KeyboardInterrupt" in said, said
    subprocess.run([command, "sweep", file, "--out", tmp_path / "out"], check=True, capture_output=True, timeout=300)
    fullpipe.sweep(file, tmp_path / "whole", progress=False)
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_another_sweeps_directory_is_refused(tmp_path):
    fullpipe.sweep(GRID, tmp_path, progress=False)
    with pytest.raises(fullpipe.OutputError, match="another scenario"):
        fullpipe.sweep({**GRID, "duration": "600ms"}, tmp_path, progress=False)
    with pytest.raises(TypeError, match="on='spark'"):
        fullpipe.sweep(GRID, tmp_path, on="spark")


def test_the_bar_counts_runs(tmp_path, capfd):
    fullpipe.sweep(GRID, tmp_path)
    assert "20/20" in capfd.readouterr().err


def test_a_run_whose_algorithm_raised_is_not_kept(tmp_path):
    @fullpipe.algorithm("raises")
    class Raises:
        def on_ack(self, conn, sample):
            raise ZeroDivisionError("in the algorithm")

    # Over before anybody looks whether something was raised.
    grid = {**GRID, "cc": ["reno", "raises"], "duration": "100ms", "expect": []}
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in the algorithm"):
            fullpipe.sweep(grid, tmp_path / "out", progress=False)
        assert "raises" not in (tmp_path / "out/runs.jsonl").read_text()
    fullpipe.algorithm("raises")(type("Mended", (), {}))
    assert fullpipe.sweep(grid, tmp_path / "out", progress=False).summary.equals(fullpipe.run(grid).summary)
