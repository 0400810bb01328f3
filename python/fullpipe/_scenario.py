"""Scenarios that are written in Python, with the field names of a scenario file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Union

import tomli_w

from ._fullpipe import Plan

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

#: A quantity as a file has it (``"100mbit"``), or a list of them: an axis of the grid.
Text = Union[str, "list[str]"]
Whole = Union[int, "list[int]"]
Yes = Union[bool, "list[bool]"]
#: A field that takes a table, a name or a number; docs/scenarios.md has its forms.
Free = Any


class PathFields(TypedDict, total=False):
    """Fields of ``[path]``."""

    rtt: Text
    rate: Text
    steps: list[dict[str, str]]
    trace: Free
    buffer: Text
    queue: Free
    loss: Free
    down: list[dict[str, Any]]
    up: list[dict[str, Any]]


class NodeFields(TypedDict, total=False):
    """Fields of ``[[node]]``."""

    name: str


class NetworkFields(TypedDict, total=False):
    """Fields of ``[network]``."""

    dumbbell: Free
    parking_lot: Free
    incast: Free
    leaf_spine: Free
    fat_tree: Free
    core: Free
    edge: Free
    rtt: Text
    shortest: Text
    ecmp: Yes
    reroute_after: Text


class LinkFields(TypedDict, total=False):
    """Fields of ``[[link]]``."""

    from_: str
    to: str
    delay: Text
    rate: Text
    steps: list[dict[str, str]]
    trace: Free
    buffer: Text
    queue: Free
    loss: Free
    down: list[dict[str, Any]]
    fails: list[dict[str, str]]


class FlowFields(TypedDict, total=False):
    """Fields of ``[[flow]]``."""

    name: str
    cc: Text
    count: Whole
    start: Text
    every: Text
    stop: Text
    app: Free
    program: Free
    transport: Text
    receiver: Text
    mss: Whole
    initial_cwnd: Free
    resume: Free
    startup: Text
    paced: Yes
    ack_aggregation: Yes
    cubic: Text
    bbr3x_without: Text
    startup_pacing_gain: Free
    startup_cwnd_gain: Free
    ack_every: Whole
    ack_delay: Text
    ecn: Text
    send_buffer: Text
    receive_window: Text
    receive_window_initial: Text
    extra_rtt: Text
    jitter: Text
    receiver_delay: Text
    swift_target: Text
    swift_range: Text
    swift_endpoint: Text
    pacer: Text
    handshake: Yes
    quick_acks: Whole
    reordering: Text
    rto_min: Text
    idle_restart: Yes
    prr: Yes
    route: Text
    reroute: list[dict[str, str]]
    from_: Text
    to: Text
    pairs: Text
    access: Free
    direction: Text
    in_fairness: Yes
    background: Yes


class CrossFields(TypedDict, total=False):
    """Fields of ``[[cross]]``."""

    rate: Text
    packet: Free
    arrivals: Text
    start: Text
    stop: Text
    route: Text
    from_: Text
    to: Text


class Scenario:
    """A scenario, built field by field. Every method returns the scenario, so that calls can be chained.

    >>> scenario = (
    ...     Scenario(cc=["bbr3", "cubic"], duration="5s")
    ...     .path(rate="100mbit", rtt="40ms", buffer="1bdp")
    ...     .expect("goodput_mbps >= 80")
    ... )
    """

    def __init__(self, **fields: Any) -> None:
        """Fields of the file's top: ``name``, ``about``, ``cc``, ``duration``, ``seed``, ``interval``, and tables."""
        self._fields: dict[str, Any] = dict(fields)

    def set(self, **fields: Any) -> Self:
        """Sets fields of the file's top."""
        self._fields.update(fields)
        return self

    def path(self, **fields: Unpack[PathFields]) -> Self:
        """Sets fields of ``[path]``."""
        self._fields.setdefault("path", {}).update(fields)
        return self

    def network(self, **fields: Unpack[NetworkFields]) -> Self:
        """Sets fields of ``[network]``."""
        self._fields.setdefault("network", {}).update(fields)
        return self

    def node(self, name: str) -> Self:
        """Adds a ``[[node]]``."""
        return self._add("node", {"name": name})

    def link(self, **fields: Unpack[LinkFields]) -> Self:
        """Adds a ``[[link]]`` to a chain, or between the nodes ``from_`` and ``to``."""
        return self._add("link", fields)

    def flow(self, **fields: Unpack[FlowFields]) -> Self:
        """Adds a ``[[flow]]``."""
        return self._add("flow", fields)

    def cross(self, **fields: Unpack[CrossFields]) -> Self:
        """Adds a ``[[cross]]``: traffic that reacts to nothing."""
        return self._add("cross", fields)

    def variant(self, name: str, **fields: Any) -> Self:
        """Adds a ``[[variant]]``: a run with these fields in place of the others."""
        return self._add("variant", {"name": name, **fields})

    def expect(self, *texts: str, known_failure: str | None = None) -> Self:
        """Adds expectations, like ``"queue_ms.p95 <= 10"``."""
        entries = [text if known_failure is None else {"that": text, "known_failure": known_failure} for text in texts]
        self._fields.setdefault("expect", []).extend(entries)
        return self

    def _add(self, table: str, fields: Mapping[str, Any]) -> Self:
        # ``from`` is a word of Python; ``from_`` stands for it.
        self._fields.setdefault(table, []).append({name.rstrip("_"): value for name, value in fields.items()})
        return self

    def to_dict(self) -> dict[str, Any]:
        """The fields, as a file's tables."""
        return dict(self._fields)

    def to_toml(self) -> str:
        """The text of a scenario file."""
        return tomli_w.dumps(self._fields, multiline_strings=False)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes a scenario file."""
        with open(file, "w", encoding="utf-8") as out:
            out.write(self.to_toml())


#: A scenario file's path, a :class:`Scenario`, or a mapping with the fields of a file.
ScenarioLike = Union[str, "os.PathLike[str]", Scenario, "Mapping[str, Any]"]


def plan_of(scenario: ScenarioLike, **options: Any) -> Plan:
    """Reads and checks a scenario."""
    if isinstance(scenario, Mapping):
        scenario = Scenario(**scenario)
    if isinstance(scenario, Scenario):
        return Plan.parse(scenario.to_toml(), **options)
    return Plan.load(os.fspath(scenario), **options)
