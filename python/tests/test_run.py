"""Runs: results equal to the command's, errors as exceptions, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import fullpipe

ROOT = Path(__file__).parents[2]
FILES = ["scenarios/quickstart.toml", "scenarios/parking-lot.toml"]
TABLES = ("summary", "flows", "links", "series")

SHORT = {
    "name": "short",
    "cc": ["bbr3", "cubic"],
    "duration": "1s",
    "interval": "100ms",
    "path": {"rate": ["10mbit", "20mbit"], "rtt": "20ms", "buffer": "1bdp"},
    "flow": [{"name": "first"}, {"name": "second", "start": "200ms"}],
    "expect": ["goodput_mbps >= 5", {"that": "jain >= 2", "known_failure": "1 is the most"}],
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_gives_what_the_command_gives(file, command, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    args = [command, "run", file, "--json", "--out", tmp_path / "command"]
    printed = subprocess.run(args, capture_output=True, text=True, timeout=300, check=False)
    results = fullpipe.run(file)
    # Byte for byte, but for the line's end.
    assert results.to_json() == printed.stdout.rstrip("\n")
    for name in TABLES:
        assert getattr(results, name).equals(pa.parquet.read_table(tmp_path / "command" / f"{name}.parquet")), name
    results.write(tmp_path / "python")
    for name in TABLES:
        ours, theirs = (tmp_path / of / f"{name}.parquet" for of in ("python", "command"))
        assert ours.read_bytes() == theirs.read_bytes(), name


def test_a_dict_a_builder_and_a_file_are_one_scenario(fullpipe_json, tmp_path):
    built = (
        fullpipe.Scenario(name="short", cc=["bbr3", "cubic"], duration="1s", interval="100ms")
        .path(rate=["10mbit", "20mbit"], rtt="20ms", buffer="1bdp")
        .flow(name="first")
        .flow(name="second", start="200ms")
        .expect("goodput_mbps >= 5")
        .expect("jain >= 2", known_failure="1 is the most")
    )
    of_dict, of_builder = fullpipe.run(SHORT), fullpipe.run(built)
    built.save(tmp_path / "short.toml")
    of_file = fullpipe_json("run", tmp_path / "short.toml", "--json")["scenarios"][0]
    for name in TABLES:
        assert getattr(of_dict, name).equals(getattr(of_builder, name)), name
    assert of_builder.to_dict()["scenarios"][0]["runs"] == of_file["runs"]
    assert of_dict.axes == ["cc", "rate"]
    assert of_dict.summary.num_rows == 4
    assert of_dict.flows.num_rows == 8
    assert of_dict.series.num_rows == of_file["runs"].__len__() * len(of_file["runs"][0]["series"])


def test_expectations_are_objects():
    results = fullpipe.run(SHORT)
    goodput, jain = results.expectations
    assert goodput.met and goodput.cases == 4 and goodput.margin == pytest.approx(goodput.value - 5)
    assert not jain.met and jain.as_known and jain.known_failure == "1 is the most"
    assert results.met
    assert not fullpipe.run({**SHORT, "expect": ["goodput_mbps >= 50"]}).met


def test_tables_are_handed_over_without_a_copy():
    plan = fullpipe._scenario.plan_of(SHORT)
    table = plan.run().table("series")
    one, two = pa.table(table), pa.table(table)
    for name in one.column_names:
        addresses = [[b and b.address for b in t.column(name).chunk(0).buffers()] for t in (one, two)]
        assert addresses[0] == addresses[1], name
    # The memory stays when the table is gone.
    values = one.column("t_s").to_pylist()
    del table, two
    assert one.column("t_s").to_pylist() == values


def test_polars_reads_a_table():
    polars = pytest.importorskip("polars")
    results = fullpipe.run(SHORT)
    frame = polars.DataFrame(results.summary)
    assert frame["goodput_mbps"].to_list() == results.summary["goodput_mbps"].to_pylist()


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("duration = '1s'\n[path]\nrate = '10mbitt'\nrtt = '20ms'\n", 3, "path.rate", "10mbitt"),
        ("duration = '1s'\n[path]\nrat = '10mbit'\n", 3, "path.rat", "did you mean rate?"),
        ("duration = \n", 1, "", ""),
        ("cc = 'bbr3'\n[path]\nrate = '10mbit'\nrtt = '9ms'\nbuffer = '1bdp'\n[[flow]]\nroute = '1-2'\n", 7, "flow[0].route", ""),
    ],
)
def test_an_error_has_the_files_line(text, line, field, words, tmp_path, command):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(fullpipe.ScenarioError) as raised:
        fullpipe.run(file)
    error = raised.value
    assert (error.file, error.line, error.field) == (str(file), line, field)
    assert words in error.message
    said = subprocess.run([command, "run", file], capture_output=True, text=True, timeout=60, check=False).stderr
    assert said.strip() == f"error: {error}"


def test_arguments_that_are_wrong_are_refused():
    for arguments in ({"stack": "simm"}, {"stack": "sim", "clock": "real"}, {"link": "tun"}, {"jobs": 0}, {"max_memory": "1 elephant"}):
        with pytest.raises(fullpipe.ScenarioError) as raised:
            fullpipe.run(SHORT, **arguments)
        assert next(iter(arguments)) in str(raised.value), raised.value
    with pytest.raises(fullpipe.ScenarioError, match="--max-memory"):
        fullpipe.run(SHORT, max_memory="1kB")
    with pytest.raises(fullpipe.ScenarioError, match="No such file"):
        fullpipe.run("not-there.toml")


def test_other_threads_run_meanwhile():
    counted, end = [0], threading.Event()

    def count() -> None:
        while not end.is_set():
            counted[0] += 1
            time.sleep(0.005)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    begun = time.monotonic()
    fullpipe.run({**SHORT, "duration": "60s", "seed": [1, 2]}, jobs=1)
    took = time.monotonic() - begun
    seen = counted[0] - before
    end.set()
    thread.join()
    assert seen >= took / 0.005 / 10, f"{seen} rounds in {took:.2f} s"


def test_ctrl_c_ends_a_run():
    program = (
        "import fullpipe, sys, time\n"
        "print('begun', flush=True)\n"
        "try:\n"
        "    fullpipe.run({'cc': 'bbr3', 'duration': '100000s', 'path': {'rate': '1gbit', 'rtt': '20ms', 'buffer': '1bdp'}}, max_memory='20GB')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(1)
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(timeout=10) == 0
        assert time.monotonic() - begun < 5


def test_a_bar_that_raises_ends_a_run():
    plan = fullpipe._scenario.plan_of({**SHORT, "duration": "1000s", "seed": list(range(50))})

    def progress(done: int) -> None:
        raise ValueError("enough")

    begun = time.monotonic()
    with pytest.raises(ValueError, match="enough"):
        plan.run(progress=progress)
    assert time.monotonic() - begun < 5


def test_real_time_backends_run():
    results = fullpipe.run({**SHORT, "path": {"rate": "10mbit", "rtt": "20ms", "buffer": "1bdp"}, "cc": "bbr3", "flow": [{}]}, stack="noq", clock="real")
    assert results.summary["goodput_mbps"][0].as_py() > 1
    assert json.loads(results.to_json())["scenarios"][0]["link"] == "udp"
