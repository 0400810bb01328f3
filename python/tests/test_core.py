"""Controller, path, builder, algorithms in Python, plots."""

from __future__ import annotations

import doctest
import re
import time
import typing
from concurrent.futures import ThreadPoolExecutor

import pytest

import fullpipe
from fullpipe import _core, _scenario


def test_the_documented_examples_are_right():
    for module in (_core, _scenario):
        failed, tried = doctest.testmod(module)
        assert tried > 0 and failed == 0


def test_the_builder_has_the_files_fields():
    """The lab's message about a field that there is not names those that there are."""
    wrong = {
        "path": {"path": {"bogus": 1}},
        "node": {"node": [{"bogus": 1}]},
        "network": {"network": {"bogus": 1}},
        "link": {"link": [{"bogus": 1}]},
        "flow": {"path": {}, "flow": [{"bogus": 1}]},
        "cross": {"path": {}, "cross": [{"bogus": 1}]},
    }
    for table, scenario in wrong.items():
        with pytest.raises(fullpipe.ScenarioError) as raised:
            fullpipe.run(scenario)
        known = re.findall(r"`(\w+)`", raised.value.message)[1:]
        fields = typing.get_type_hints(getattr(_scenario, f"{table.title()}Fields"))
        # ``from`` is a word of Python.
        assert sorted(field.rstrip("_") for field in fields) == sorted(known), table


def ping(algorithm: str) -> fullpipe.Controller:
    """A second of a flow over a path of 10 Mbit/s and 20 ms, driven by Python."""
    cc = fullpipe.Controller(algorithm, seed=7)
    fields = {"rate": "10mbit", "rtt": "20ms", "buffer": "1bdp"}
    down, up = fullpipe.Path(**fields), fullpipe.Path(**fields, back=True)
    now = 0
    while now < 1_000_000_000:
        while (at := cc.send_at(now)) is not None and at <= now:
            packet = cc.on_sent(now, 1200)
            down.send(now, 1228, packet)
        while event := down.poll(now):
            up.send(now, 40, event.payload)
        while event := up.poll(now):
            cc.on_ack(now, [event.payload])
        times = [down.next_event(), up.next_event(), cc.send_at(now)]
        now = max(now + 1, min(t for t in times if t is not None))
    assert down.sent == down.delivered + down.dropped + down.inside
    return cc


def test_a_controller_finds_the_rate_of_a_path():
    cc = ping("bbr3")
    snapshot = cc.snapshot()
    assert cc.state.startswith("ProbeBW"), cc.state
    max_bw = snapshot["bbr"]["max_bw"] * 8
    assert max_bw == pytest.approx(10e6 * 1200 / 1228, rel=0.03)
    assert cc.send_rate_estimate_bps == pytest.approx(max_bw, rel=0.03)
    assert cc.probe_bandwidth(10**12, 5_000_000) == "reached"
    asked = cc.probe_bandwidth(10**12, 50_000_000)
    assert asked == ("draining" if cc.state == "ProbeBW_DOWN" else "probing"), (asked, cc.state)
    assert cc.pacing_bps > 5e6 and cc.cwnd > 10_000 and cc.inflight > 0
    assert ping("cubic").state in ("SlowStart", "ConservativeSlowStart", "CongestionAvoidance", "Recovery")


def test_controllers_that_are_none_are_refused():
    for name in ("bbr4", "linux:bbr", "noq:cubic"):
        with pytest.raises(fullpipe.ScenarioError, match="algorithm"):
            fullpipe.Controller(name)
    with pytest.raises(fullpipe.ScenarioError, match="10mbitt"):
        fullpipe.Path(rate="10mbitt")


def test_a_path_says_what_it_dropped():
    path = fullpipe.Path(rate="1mbit", rtt="20ms", buffer="2pkts")
    said = [path.send(0, 1500, number) for number in range(4)]
    assert said[:2] == [None, None]
    assert [event.dropped for event in said[2:]] == ["tail drop"] * 2
    out = path.poll(10**9)
    assert (out.payload, out.dropped, out.at_ns) == (0, None, 12_000_000 + 10_000_000)
    assert path.poll(10**9).queued_ns == 12_000_000
    assert (path.sent, path.delivered, path.dropped, path.inside) == (4, 2, 2, 0)


class Vegas:
    """TCP Vegas without slow start: crates/cli/examples/own_algorithm.rs in Python."""

    def __init__(self):
        self.round_end = 0

    def on_ack(self, conn, sample):
        if sample.rtt_ns is None or sample.prior_delivered < self.round_end or conn.in_recovery:
            return
        self.round_end = conn.delivered
        waiting = conn.cwnd // conn.smss * (sample.rtt_ns - conn.min_rtt_ns) // sample.rtt_ns
        if waiting < 2 and sample.may_grow:
            conn.cwnd += conn.smss
        elif waiting > 4:
            conn.cwnd -= conn.smss
        conn.pace_by_window(125)

    def on_congestion(self, conn, new_episode):
        if new_episode:
            conn.cwnd = max(conn.cwnd * 3 // 4, conn.min_window)


ALONE = {"duration": "5s", "path": {"rate": "20mbit", "rtt": "20ms", "buffer": "2bdp"}}


def test_an_algorithm_in_python_is_the_same_one_in_rust(fullpipe_json, command, tmp_path):
    example = command.with_name("examples") / "own_algorithm"
    if not example.exists():
        pytest.skip("cargo build --release --examples makes the example")
    fullpipe.algorithm("vegas")(Vegas)
    scenario = fullpipe.Scenario(name="alone", cc=["vegas", "reno"], **ALONE)
    scenario.save(tmp_path / "alone.toml")
    import json
    import subprocess

    args = [example, "run", tmp_path / "alone.toml", "--json"]
    rust = json.loads(subprocess.run(args, check=True, capture_output=True, text=True, timeout=60).stdout)
    ours, theirs = fullpipe.run(scenario).to_dict()["scenarios"][0]["runs"], rust["scenarios"][0]["runs"]
    assert ours == theirs


def test_an_algorithm_that_raises_ends_the_run():
    @fullpipe.algorithm("broken")
    class Broken:
        def on_ack(self, conn, sample):
            raise ZeroDivisionError("in the algorithm")

    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="in the algorithm"):
        fullpipe.run({"cc": "broken", **ALONE, "duration": "100000s"}, max_memory="20GB")
    assert time.monotonic() - begun < 5

    # The name given again means the new class, and the old exception is gone.
    @fullpipe.algorithm("broken")
    class Mended:
        def on_ack(self, conn, sample):
            conn.cwnd = 4 * conn.smss

    assert fullpipe.run({"cc": "broken", **ALONE}).summary["goodput_mbps"][0].as_py() > 1


def broken(name: str, error: Exception) -> None:
    @fullpipe.algorithm(name)
    class Broken:
        def on_ack(self, conn, sample):
            raise error


def test_a_controller_raises_what_its_algorithm_raised():
    broken("broken-alone", ZeroDivisionError("in the controller"))
    cc = fullpipe.Controller("broken-alone")
    packet = cc.on_sent(0, 1200)
    with pytest.raises(ZeroDivisionError, match="in the controller"):
        cc.on_ack(40_000_000, [packet])
    # And no run does after it.
    assert len(fullpipe.run({"cc": "reno", **ALONE})) == 1


def test_each_thread_gets_the_exceptions_of_its_own_runs():
    broken("broken-key", KeyError("key"))
    broken("broken-index", IndexError("index"))

    def kind(cc: str) -> object:
        try:
            return len(fullpipe.run({"cc": cc, **ALONE}))
        except LookupError as error:
            return type(error)

    names = ["broken-key", "reno", "broken-index", "cubic"] * 10
    with ThreadPoolExecutor(4) as threads:
        kinds = list(threads.map(kind, names))
    assert kinds == [KeyError, 1, IndexError, 1] * 10


def test_names_of_algorithms_are_checked():
    for name in ("bbr3", "", "two words", "noq:bbr3"):
        with pytest.raises(ValueError, match="name|fullpipe's"):
            fullpipe.algorithm(name)(Vegas)


def test_plots_have_a_line_for_each_flow_or_point():
    pytest.importorskip("plotly")
    course = fullpipe.run({"cc": ["bbr3", "cubic"], **ALONE}).plot()
    assert sorted({trace.name for trace in course.data}) == ["bbr3 (cc bbr3)", "cubic (cc cubic)"]
    assert len(course.data) == 2 * 3 and all(len(trace.x) > 100 for trace in course.data)
    grid = {**ALONE, "duration": "1s", "cc": ["bbr3", "reno"], "seed": [1, 2, 3]}
    grid["path"] = {**ALONE["path"], "buffer": ["1bdp", "2bdp", "4bdp"]}
    runs = fullpipe.run(grid).plot("jain", "queue_ms.p95")
    assert [trace.name for trace in runs.data] == ["cc bbr3", "cc bbr3", "cc reno", "cc reno"]
    assert list(runs.data[0].x) == ["1bdp", "2bdp", "4bdp"]
    with pytest.raises(ValueError, match="goodput_mbps"):
        fullpipe.run({"cc": "bbr3", **ALONE}).plot("goodput")
