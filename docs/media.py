#!/usr/bin/env python3
"""Writes the tables of docs/media.md again: between `<!-- NAME -->` and `<!-- end -->`.

    docs/media.py                 # all: some seconds
    docs/media.py adaptive        # one

Needs target/release/fullpipe (cargo build --release).
"""

import re
import tempfile
from pathlib import Path

from tables import ROOT, main, run

ALGORITHMS = ("cubic", "bbr3", "bbr3x", "bbr1")

# Backends whose senders take requests for probes.
PROBING = ("sim", "noq", "quinn", "tcp")


def values(name, wanted, stack="sim"):
    """Values of metrics, such as `stalls[bbr3] after 10s`, in the runs of a scenario file."""
    text = (ROOT / f"scenarios/media/{name}.toml").read_text()
    # An expectation that is always met says the value.
    metrics = (metric.partition(" ") for metric in wanted)
    ours = [f"{metric} >= 0{space}{span}" for metric, space, span in metrics]
    text, count = re.subn(r"^expect = \[\n.*?^\]$", lambda _: f"expect = {ours!r}", text, flags=re.DOTALL | re.MULTILINE)
    assert count == 1, name
    with tempfile.TemporaryDirectory() as dir:
        file = Path(dir) / f"{name}.toml"
        file.write_text(text)
        # An absolute path takes the place of the folder of scenarios.
        report = run(file.with_suffix(""), options=("--stack", stack))[0]
        return [expectation["value"] for expectation in report["expectations"]]


def live_frames():
    yield f"| round trip, bitrate | {' | '.join(f'`{name}`' for name in ALGORITHMS)} |"
    yield f"|---|{'---|' * len(ALGORITHMS)}"
    for rtt in ("40ms", "100ms"):
        for bitrate in ("4mbit", "8mbit"):
            of = [f"completion_ms.p99[{name},rtt={rtt},bitrate={bitrate}] after 10s" for name in ALGORITHMS]
            cells = " | ".join(f"{value:.1f}" for value in values("live-frames", of))
            yield f"| {rtt.removesuffix('ms')} ms, {bitrate.removesuffix('mbit')} Mbit/s | {cells} |"


def adaptive():
    yield "| | bitrate at 10, 30, 50 s and the ten seconds after, Mbit/s | stalls 20 to 30 s, 30 to 40 s, ms |"
    yield "|---|---|---|"
    for name in ALGORITHMS:
        rates = [f"bitrate_mbps[{name}] from {at}s to {at + 10}s" for at in (10, 30, 50)]
        stalls = [f"stalled_ms[{name}] from {at}s to {at + 10}s" for at in (20, 30)]
        found = values("adaptive", rates + stalls)
        rates, stalls = ", ".join(f"{v:.2f}" for v in found[:3]), ", ".join(f"{v:.0f}" for v in found[3:])
        yield f"| `{name}` | {rates} | {stalls} |"


def probe():
    yield f"| without; with probes, padding, stalled | {' | '.join(f'`{name}`' for name in PROBING)} |"
    yield f"|---|{'---|' * len(PROBING)}"
    for name in ALGORITHMS:
        wanted = [f"bitrate_mbps[{name},probe={probe}] after 20s" for probe in ("false", "true")]
        wanted += [f"{metric}[{name},probe=true]" for metric in ("padding_bytes", "stalled_ms")]
        found = [values("probe", wanted, stack) for stack in PROBING]
        cells = (f"{off:.2f}; {on:.2f}, {padding / 1e3:.0f}, {stalled:.0f}" for off, on, padding, stalled in found)
        yield f"| `{name}` | {' | '.join(cells)} |"


def beside_bulk():
    yield "| | media, Mbit/s | bulk, Mbit/s | frame delay p50, p99, ms | stalled, ms |"
    yield "|---|---|---|---|---|"
    for name in ALGORITHMS:
        wanted = [f"flow[media].bitrate_mbps[{name}]", f"flow[bulk].goodput_mbps[{name}]"]
        wanted += [f"flow[media].{metric}[{name}]" for metric in ("completion_ms.p50", "completion_ms.p99", "stalled_ms")]
        media, bulk, p50, p99, stalled = values("beside-bulk", wanted)
        yield f"| `{name}` | {media:.2f} | {bulk:.1f} | {p50:.0f}, {p99:.0f} | {stalled:.0f} |"


if __name__ == "__main__":
    main(
        ROOT / "docs/media.md",
        {"live-frames": live_frames, "adaptive": adaptive, "probe": probe, "beside-bulk": beside_bulk},
    )
