"""The command's qlogs: by the schema of the drafts, and as qvis' loader reads them.

qvis is in no registry. What its loader asks of a file is written down here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cbor2
import pycddl
import pytest

SCENARIO = """
cc = ["bbr3", "cubic"]
duration = "2s"
path = { rate = "20mbit", rtt = "40ms", buffer = "1bdp", loss = "1%" }

[[flow]]

[[flow]]
transport = "tcp"
"""

# Events of 0.3, by category and type, that qvis draws.
DRAWN = {("transport", "packet_sent"), ("recovery", "metrics_updated")}


def skip_without_qlog(done: subprocess.CompletedProcess[str] | str) -> None:
    """Skips where the command was built without its feature."""
    said = done if isinstance(done, str) else done.stderr
    if "feature qlog" in said or "unexpected argument '--qlog'" in said:
        pytest.skip(f"the command writes no qlogs: {said.strip()}")
    assert isinstance(done, str) or done.returncode == 0, said


@pytest.fixture(scope="module")
def of_runs(command: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Logs of simulated flows."""
    directory = tmp_path_factory.mktemp("runs")
    scenario = directory / "x.toml"
    scenario.write_text(SCENARIO)
    args: list[str | Path] = [command, "run", scenario, "--qlog", directory / "qlogs"]
    skip_without_qlog(subprocess.run(args, capture_output=True, text=True, timeout=60, check=False))
    return sorted((directory / "qlogs").iterdir())


@pytest.fixture(scope="module")
def of_connections(command: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Logs of both ends of a connection on loopback."""
    directory = tmp_path_factory.mktemp("connections")
    (directory / "www").mkdir()
    (directory / "www" / "file").write_bytes(bytes(2_000_000))
    serve: list[str | Path] = [command, "serve", directory / "www", "--listen", "127.0.0.1:0"]
    serve += ["--qlog", directory / "server"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout and server.stderr
            line = server.stdout.readline()
            if not line:
                skip_without_qlog(server.stderr.read())
            address = line.split()[2].rstrip(",")
            get: list[str | Path] = [command, "get", f"https://{address}/file", "--insecure", "-o", directory / "file"]
            get += ["--qlog", directory / "client"]
            skip_without_qlog(subprocess.run(get, capture_output=True, text=True, timeout=60, check=False))
        finally:
            server.terminate()
            server.communicate(timeout=30)
    yield [path for end in ("client", "server") for path in (directory / end).iterdir()]


def records(path: Path) -> list[Any]:
    """The records of a JSON text sequence (RFC 7464), each with a separator before and a line's end behind it."""
    text = path.read_text()
    assert text.startswith("\x1e") and text.endswith("}\n"), text[-200:]
    return [json.loads(record) for record in text.split("\x1e")[1:]]


TEXT = (Path(__file__).parent / "qlog.cddl").read_text()

# The rule of each event.
RULES = {
    "quic:packet_sent": "packet_event",
    "quic:packet_received": "packet_event",
    "quic:packet_lost": "lost_event",
    "quic:recovery_metrics_updated": "metrics_event",
    "recovery:metrics_updated": "metrics_event",
    "quic:parameters_set": "parameters_event",
    "quic:parameters_restored": "parameters_event",
    "quic:recovery_parameters_set": "recovery_event",
    "quic:congestion_state_updated": "state_event",
    "quic:connection_started": "connection_event",
    "quic:connection_closed": "connection_event",
    "quic:tuple_assigned": "tuple_event",
    "quic:timer_updated": "timer_event",
}


# The rule of each frame that has one of its own. The validator cannot choose one for each of a list.
FRAMES = {"ack": "ack_frame", "stream": "data_frame", "crypto": "data_frame", "padding": "padding_frame"}


@cache
def schema(rule: str) -> pycddl.Schema:
    """The schema with this rule as its first one, which is the one that a record has to fit."""
    return pycddl.Schema(f"first = {rule}\n{TEXT}")


def wrong(record: Any) -> str | None:
    """The reason why a record is none of the schema."""
    name = record.get("name")
    rules = [(RULES[name] if name else "head", record)]
    rules += [(FRAMES.get(f["frame_type"], "other_frame"), f) for f in record.get("data", {}).get("frames", [])]
    for rule, part in rules:
        try:
            schema(rule).validate_cbor(cbor2.dumps(part))
        except pycddl.ValidationError as error:
            return f"{part}: {error}"
    return None


def check(paths: list[Path]) -> None:
    """Holds files to the drafts' schema, and reads them as qvis does."""
    for path in paths:
        head, *events = records(path)
        assert wrong(head) is None
        # One of each form, and every hundredth of the others: the validator takes a millisecond for one.
        forms = {json.dumps([e["name"], sorted(e["data"])]): e for e in events}
        for event in [*forms.values(), *events[::100]]:
            assert wrong(event) is None
        # qvis looks for the version and the format in the first kilobyte, and for a trace.
        assert path.suffix == ".sqlog"
        start = path.read_text()[:1024]
        assert all(word in start for word in ('"qlog_version"', '"qlog_format"', "JSON-SEQ"))
        assert head["qlog_version"] == "0.3" and isinstance(head["trace"], dict)
        # A format of time that it does not know is an absolute one; it wants events in their order.
        times = [event["time"] for event in events]
        assert times and times == sorted(times)
        # An event is known by its category and by what is behind the colon; sizes are in raw.
        known = {(event["category"], event["name"].split(":")[1]) for event in events}
        assert known >= DRAWN, known
        for event in events:
            if event["name"] in ("quic:packet_sent", "quic:packet_received"):
                assert event["data"]["raw"]["length"] > 0, event


def test_runs(of_runs: list[Path]) -> None:
    """Logs of runs are of the dialect."""
    assert len(of_runs) == 4
    check(of_runs)


def test_connections(of_connections: list[Path]) -> None:
    """Logs of connections are of the dialect, and whole."""
    assert len(of_connections) == 2
    check(of_connections)
    sent, received = 0, 0
    for path in of_connections:
        for event in records(path)[1:]:
            is_one = event["data"].get("header", {}).get("packet_type") == "1RTT"
            frames = event["data"].get("frames", [])
            bytes_ = sum(frame["length"] for frame in frames if frame["frame_type"] == "stream") if is_one else 0
            if "-server" in path.name and event["name"] == "quic:packet_sent":
                sent += bytes_
            if "-client" in path.name and event["name"] == "quic:packet_received":
                received += bytes_
    assert sent >= 2_000_000 and received >= 2_000_000


def test_the_schema_refuses_what_is_wrong(of_connections: list[Path]) -> None:
    """A wrong field, a wrong type and a range with one end are no event of the schema."""
    _, *events = records(of_connections[0])
    packet = next(e for e in events if any(f["frame_type"] == "ack" for f in e["data"].get("frames", [])))
    assert wrong(packet) is None

    def broken(change: Any) -> Any:
        copy = json.loads(json.dumps(packet))
        change(copy)
        return copy

    ack = next(i for i, f in enumerate(packet["data"]["frames"]) if f["frame_type"] == "ack")
    for change in (
        lambda e: e["data"]["header"].update(length=7),
        lambda e: e["data"]["raw"].update(length="7"),
        lambda e: e.pop("category"),
        lambda e: e["data"]["frames"][ack].update(acked_ranges=[[1]]),
    ):
        assert wrong(broken(change))
