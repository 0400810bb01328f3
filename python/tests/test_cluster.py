"""Sweeps on a Ray cluster of four nodes, each with processes of its own on this machine.

FULLPIPE_RUNS=100000 makes the grid of the killed node that large; docs/cluster.md has what it took.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

import fullpipe

ray = pytest.importorskip("ray")
from fullpipe import cluster as on_ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

RUNS = int(os.environ.get("FULLPIPE_RUNS", "2000"))

#: A run of a millisecond or two.
SHORT = {
    "name": "short",
    "cc": ["bbr3", "cubic"],
    "duration": "200ms",
    "path": {"rate": ["5mbit", "10mbit"], "rtt": "20ms", "buffer": "1bdp", "loss": "0.1%"},
    "expect": ["goodput_mbps >= 1", {"that": "loss_rate == 0", "known_failure": "there is loss"}],
}


def grid(runs: int) -> dict:
    return {**SHORT, "seed": list(range(1, runs // 4 + 1))}


@pytest.fixture(scope="module")
def nodes():
    """A cluster whose driver this process is; its nodes but for the head."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    others = [made.add_node(num_cpus=1) for _ in range(3)]
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False)
    yield made, others
    ray.shutdown()
    made.shutdown()


def test_a_node_is_killed_and_nothing_is_lost_or_twice(nodes, tmp_path):
    made, others = nodes
    assert ray.cluster_resources()["CPU"] == 4
    begun = time.monotonic()
    one_machine = fullpipe.sweep(grid(RUNS), tmp_path / "one", progress=False)
    alone = time.monotonic() - begun
    killed = {}

    def kill() -> None:
        """Takes a node away, with its workers at work, when a quarter of the batches are done."""
        while True:
            try:
                done = on_ray.journal(str(tmp_path / "ray"))
                if len(done) >= 10:
                    break
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        killed["node"] = others[0].node_id
        killed["done"] = len(done)
        made.remove_node(others.pop(0), allow_graceful=False)

    thread = threading.Thread(target=kill)
    thread.start()
    begun = time.monotonic()
    seconds = max(0.05, min(1.0, RUNS / 2000 * 0.05))
    results = fullpipe.sweep(grid(RUNS), tmp_path / "ray", on="ray", batch_seconds=seconds, progress=False)
    took = time.monotonic() - begun
    thread.join()
    done = on_ray.journal(str(tmp_path / "ray"))
    assert killed["done"] < len(done), "it was killed after the end"
    assert len({entry.node for entry in done}) >= 3
    # Nothing lost and nothing twice, in the journal and in the tables.
    assert sorted(run for entry in done for run in entry.runs) == list(range(RUNS))
    for name in ("summary", "flows", "links", "series"):
        assert getattr(results, name).equals(getattr(one_machine, name)), name
    # Of 10^5 runs some miss the expectation; both sides have to find the same ones.
    assert results.expectations == one_machine.expectations and results.met == one_machine.met
    files = [name for _, _, names in os.walk(tmp_path / "ray") for name in names]
    assert not [name for name in files if name.endswith(".tmp")]
    spent = sum(entry.seconds for entry in done)
    print(
        f"\n{RUNS} runs in {len(done)} batches: {alone:.1f} s on one machine, {took:.1f} s on four nodes of which one "
        f"was killed after {killed['done']} batches; {spent:.1f} s of simulation on 2 cores"
    )


def test_a_killed_driver_goes_on(nodes, tmp_path):
    made, _ = nodes
    out = str(tmp_path / "ray")
    program = (
        "import fullpipe, json, sys\n"
        "fullpipe.sweep(json.loads(sys.argv[1]), sys.argv[2], on='ray', address=sys.argv[3], batch_seconds=0.1, "
        "progress=False)\n"
    )
    long = {**grid(400), "duration": "5s"}
    args = [sys.executable, "-c", program, json.dumps(long), out, made.address]
    with subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        deadline = time.monotonic() + 120
        while len([n for n in on_ray._Store(out, ()).names("journal") if not n.startswith(".")]) < 5:
            assert time.monotonic() < deadline and driver.poll() is None
            time.sleep(0.05)
        driver.kill()
    before = {entry.batch: entry for entry in on_ray.journal(out)}
    results = fullpipe.sweep(long, out, on="ray", progress=False)
    after = {entry.batch: entry for entry in on_ray.journal(out)}
    assert len(before) < len(after)
    assert all(after[batch] == entry for batch, entry in before.items()), "a batch that was done ran again"
    assert results.summary.equals(fullpipe.run(long).summary)


def test_series_traces_and_python_algorithms_reach_the_workers(nodes, tmp_path):
    @fullpipe.algorithm("constant")
    class Constant:
        def on_start(self, conn):
            conn.cwnd = 8 * conn.smss

        def on_ack(self, conn, sample):
            pass

    (tmp_path / "my.trace").write_text("1\n2\n3\n5\n")
    scenario = fullpipe.Scenario(name="own", cc=["constant", "bbr3"], duration="1s", interval="100ms", seed=[1, 2, 3])
    scenario.path(trace="my.trace", rtt="20ms", buffer="20pkts").save(tmp_path / "own.toml")
    local = fullpipe.run(tmp_path / "own.toml")
    results = fullpipe.sweep(tmp_path / "own.toml", tmp_path / "ray", on="ray", progress=False)
    for name in ("summary", "flows", "links", "series"):
        assert getattr(results, name).equals(getattr(local, name)), name
    assert local.series.num_rows == 6 * 10


def test_other_storages_are_written(nodes, tmp_path):
    """`file://` stands for any address of fsspec's."""
    results = fullpipe.sweep(grid(20), f"file://{tmp_path}/ray", on="ray", progress=False)
    assert results.summary.equals(fullpipe.run(grid(20)).summary)


@pytest.mark.parametrize("out", ["runs[1]*?", "file://runs[1]*?"])
def test_a_name_is_no_pattern_and_the_drivers_own(nodes, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs1" / "journal").mkdir(parents=True)
    results = fullpipe.sweep(grid(20), out, on="ray", progress=False)
    assert results.summary.equals(fullpipe.run(grid(20)).summary)
    assert (tmp_path / "runs[1]*?" / "journal" / "000000.json").exists()


def test_a_store_that_copies_takes_a_name_for_a_name(tmp_path):
    store = on_ray._Store(f"memory:/{tmp_path}/runs[1]*?", ())
    store.write(b"1", "journal", "[0].json")
    store.create(b"2", "journal", "[0].json")
    store.create(b"3", "sweep.json")
    assert store.names("journal") == ["[0].json"] and store.read("journal", "[0].json") == b"1"
    assert store.read("sweep.json") == b"3"


def test_workers_have_the_algorithm_as_it_is_now(nodes, tmp_path):
    scenario = {"cc": "window", "duration": "200ms", "seed": list(range(1, 9)), "path": SHORT["path"]}
    for window in (4, 16):

        @fullpipe.algorithm("window")
        class Window:
            def on_start(self, conn):
                conn.cwnd = window * conn.smss

            def on_ack(self, conn, sample):
                pass

        results = fullpipe.sweep(scenario, tmp_path / "ray", on="ray", progress=False)
        assert results.summary.equals(fullpipe.run(scenario).summary), window
        shutil.rmtree(tmp_path / "ray")


def test_a_file_that_did_not_reach_the_disk_is_an_error(tmp_path, monkeypatch):
    def fsync(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(fullpipe.OutputError, match="cannot write .*Input/output error"):
        on_ray._Store(str(tmp_path), ()).write(b"1", "journal", "0.json")


@pytest.mark.parametrize("scheme", ["", "memory:/"])
def test_of_two_drivers_that_begin_both_have_the_head_of_one(tmp_path, monkeypatch, scheme):
    plan = on_ray.plan_of(grid(20))
    store = on_ray._Store(f"{scheme}{tmp_path}/ray", ())
    theirs = on_ray._Head(fullpipe.__version__, plan.fingerprint, 20, 3)

    def batches(plan, seconds):
        # Meanwhile.
        store.create(json.dumps(vars(theirs)).encode(), "sweep.json")
        return 5

    monkeypatch.setattr(on_ray, "_batches", batches)
    assert on_ray._open(store, plan, 1.0) == theirs
    assert sorted(store.names("")) == ["scenario.toml", "sweep.json"]


def test_a_driver_leaves_the_files_of_another_and_notices_its_runs(nodes, tmp_path):
    fullpipe.sweep(grid(20), tmp_path, on="ray", progress=False)
    theirs = tmp_path / "journal/.000000.json.1.2.tmp"
    theirs.touch()
    fullpipe.sweep(grid(20), tmp_path, on="ray", progress=False)
    assert theirs.exists()
    shutil.copy(tmp_path / "journal/000000.json", tmp_path / "journal/900000.json")
    with pytest.raises(fullpipe.OutputError, match="once too often; choose another directory"):
        fullpipe.sweep(grid(20), tmp_path, on="ray", progress=False)


def test_a_driver_that_was_killed_at_the_begin_is_started_again(nodes, tmp_path):
    (tmp_path / ".sweep.json.1.2.tmp").touch()
    (tmp_path / "scenario.toml").write_text("of somebody else")
    with pytest.raises(fullpipe.OutputError, match="something else"):
        fullpipe.sweep(grid(20), tmp_path, on="ray", progress=False)
    fullpipe.Scenario(**grid(20)).save(tmp_path / "scenario.toml")
    assert len(fullpipe.sweep(grid(20), tmp_path, on="ray", progress=False)) == 20


def test_errors_of_runs_and_directories_are_exceptions(nodes, tmp_path):
    stuck = {
        "duration": "until_done",
        "path": {"rate": "10mbit", "rtt": "20ms", "down": [{"blackhole": [{"from": "0s", "to": "90000s"}]}]},
        "flow": [{"cc": "bbr3", "app": {"bytes": "1MB"}}],
        "seed": [1, 2],
    }
    with pytest.raises(fullpipe.RunError, match=r"run \d: no flow received anything"):
        fullpipe.sweep(stuck, tmp_path / "stuck", on="ray", progress=False)
    fullpipe.sweep(grid(20), tmp_path / "ray", on="ray", progress=False)
    with pytest.raises(fullpipe.OutputError, match="another scenario"):
        fullpipe.sweep(grid(24), tmp_path / "ray", on="ray", progress=False)
    with pytest.raises(fullpipe.OutputError, match="something else"):
        fullpipe.sweep(grid(20), tmp_path, on="ray", progress=False)
    with pytest.raises(fullpipe.ScenarioError, match="below the scenario's directory"):
        (tmp_path / "t").write_text("1\n")
        trace = {"cc": "bbr3", "path": {"trace": str(tmp_path / "t"), "rtt": "20ms", "buffer": "20pkts"}}
        fullpipe.sweep(trace, tmp_path / "trace", on="ray", progress=False)


def test_a_survey_on_a_cluster_is_that_of_one_machine(nodes, tmp_path):
    small = {"cc": ["bbr3", "cubic"], "paths": 6, "kinds": ["aqm", "policer"], "worst": 0, "progress": False}
    one_machine = fullpipe.survey(tmp_path / "one", **small)
    # A part was done before.
    fullpipe.survey(tmp_path / "ray", **{**small, "paths": 2})
    on_cluster = fullpipe.survey(tmp_path / "ray", on="ray", **small)
    assert on_cluster == one_machine
    assert (tmp_path / "ray/runs.jsonl").read_bytes() == (tmp_path / "one/runs.jsonl").read_bytes()
