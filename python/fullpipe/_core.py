"""The core and the path by themselves, and algorithms of one's own. Times are nanoseconds, volumes bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union

from . import _fullpipe
from ._fullpipe import Connection, Event, Packet, Sample
from ._scenario import PathFields, Scenario

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Algorithm", "Connection", "Controller", "Event", "Packet", "Path", "Sample", "algorithm"]


class Controller:
    """Congestion control of one flow, for a transport in Python.

    >>> cc = Controller("bbr3")
    >>> packet = cc.on_sent(0, 1200)
    >>> cc.on_ack(40_000_000, [packet])
    >>> cc.state
    'Startup'
    """

    def __init__(self, algorithm: str = "bbr3", *, seed: int = 1, smss: int = 1200, now_ns: int = 0) -> None:
        """``seed`` is the flow's own: two flows with one seed probe at the same moments. ``smss`` is a full packet."""
        self._native = _fullpipe.Controller(algorithm, seed=seed, smss=smss, now_ns=now_ns)

    def send_at(self, now_ns: int) -> int | None:
        """The time at which a packet may leave: ``now_ns`` for at once; None while the window is full."""
        return self._native.send_at(now_ns)

    def on_sent(self, now_ns: int, bytes: int) -> Packet:
        """A packet left. Keep what this returns beside it."""
        return self._native.on_sent(now_ns, bytes)

    def on_ack(
        self,
        now_ns: int,
        acked: list[Packet] | None = None,
        lost: list[Packet] | None = None,
        *,
        rtt_ns: int | None = None,
        ce: int = 0,
        timeout: bool = False,
    ) -> None:
        """An ACK, or a timer that declared packets lost: all that it said, at once.

        Without ``rtt_ns`` the round trip is that of the newest packet of ``acked``. ``ce`` is the number of packets that
        were marked; ``timeout`` declares everything lost.
        """
        self._native.on_ack(now_ns, acked or [], lost or [], rtt_ns=rtt_ns, ce=ce, timeout=timeout)

    def on_app_limited(self) -> None:
        """The application has nothing to send, although the window has room."""
        self._native.on_app_limited()

    @property
    def cwnd(self) -> int:
        """Congestion window."""
        return self._native.cwnd

    @property
    def inflight(self) -> int:
        """Bytes in flight."""
        return self._native.inflight

    @property
    def pacing_bps(self) -> int | None:
        """Pacing rate in bit/s; None when the algorithm leaves pacing to the transport."""
        return self._native.pacing_bps

    @property
    def send_rate_estimate_bps(self) -> int | None:
        """The rate in bit/s that an application may plan with; None before the first round trip."""
        return self._native.send_rate_estimate_bps

    def probe_bandwidth(self, now_ns: int, target_bps: int) -> str:
        """Asks whether the path carries ``target_bps``, for an application that would send more.

        ``"reached"``: the estimate is at the target. ``"probing"``: offer what fills the target up, and ask again. Else
        the reason why not now, such as ``"too_soon"``.
        """
        return self._native.probe_bandwidth(now_ns, target_bps)

    @property
    def state(self) -> str:
        """State of the algorithm, in the draft's spelling."""
        return self._native.state

    def snapshot(self) -> dict[str, Any]:
        """Every variable of the model, by the draft's names. Times are nanoseconds, rates bytes per second."""
        variables: dict[str, Any] = json.loads(self._native.snapshot_json())
        return variables


class Path:
    """One direction of a network path, with the fields of a scenario's ``[path]``.

    >>> path = Path(rate="100mbit", rtt="40ms", buffer="1bdp")
    >>> path.send(0, 1250, "first")
    >>> path.poll(path.next_event()).at_ns
    20100000
    """

    def __init__(self, *, back: bool = False, **fields: Unpack[PathFields]) -> None:
        """``back`` is the way of the ACKs. Each has half of the round trip."""
        self._native = _fullpipe.Path(Scenario(cc="bbr3").path(**fields).to_toml(), back)

    def send(self, now_ns: int, wire_bytes: int, payload: Any = None) -> Event | None:
        """A packet enters, IP and UDP headers counted. One that is dropped on the spot is returned."""
        return self._native.send(now_ns, wire_bytes, payload)

    def next_event(self) -> int | None:
        """The time of the next event, in nanoseconds; None while the path is empty."""
        return self._native.next_event()

    def poll(self, now_ns: int) -> Event | None:
        """The next packet that was delivered or dropped until then; None when there is none."""
        return self._native.poll(now_ns)

    @property
    def sent(self) -> int:
        """Packets that entered."""
        return self._native.counts[0]

    @property
    def delivered(self) -> int:
        """Packets that came out."""
        return self._native.counts[1]

    @property
    def dropped(self) -> int:
        """Packets that were dropped."""
        return self._native.counts[2]

    @property
    def inside(self) -> int:
        """Packets on the way."""
        return self._native.counts[3]


class Algorithm(Protocol):
    """Methods that an algorithm may have besides ``on_ack``, each called with the :class:`Connection`.

    ``on_start(conn)``, ``on_enter_recovery(conn)``, ``on_exit_recovery(conn)``, ``on_congestion(conn, new_episode)``,
    ``on_rto(conn)`` and ``on_idle(conn, cwnd)``. Without ``on_rto`` and ``on_idle`` the window falls as RFC 9002 has it.
    """

    def on_ack(self, conn: Connection, sample: Sample) -> None:
        """An ACK that acknowledged new data."""


Class = TypeVar("Class", bound=Union["type[Algorithm]", "Callable[[], Algorithm]"])

#: The algorithms of this process, for the workers of a cluster.
registered: dict[str, Callable[[], object]] = {}


def algorithm(name: str) -> Callable[[Class], Class]:
    """Makes a class an algorithm that scenarios name as a flow's ``cc``: one object for each flow.

    >>> @algorithm("additive")
    ... class Additive:
    ...     def on_ack(self, conn, sample):
    ...         conn.cwnd += conn.smss * sample.newly_acked // conn.cwnd

    A name can be given again, as in a notebook; scenarios that are read later have the new class.
    """

    def register(new: Class) -> Class:
        _fullpipe.register(name, new)
        registered[name] = new
        return new

    return register
