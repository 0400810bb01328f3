#!/usr/bin/env python3
"""Writes the tables of docs/server.md again: between `<!-- NAME -->` and `<!-- end -->`.

    docs/server.py simulator         # 10 s
    sudo docs/server.py kernel       # 6 minutes, on a quiet machine

Needs target/release/fullpipe (cargo build --release --features full,kernel).
"""

from tables import ROOT, main, median, run

COLUMNS = ("BBRv1", "CUBIC", "bbr3", "bbr3x")


def rows(report):
    """A row for each path. Of several seeds the median."""
    yield "| path | " + " | ".join(COLUMNS) + " |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    [cc] = (axis for axis in report["axes"] if axis == "cc")
    names = dict.fromkeys(dict(run["at"])["variant"] for run in report["runs"])
    algorithms = dict.fromkeys(dict(run["at"])[cc] for run in report["runs"])
    for name in names:
        cells = []
        for algorithm in algorithms:
            want = {"variant": name, cc: algorithm}.items()
            runs = [r for r in report["runs"] if want <= dict(r["at"]).items()]
            own = [r["flows"][0]["metrics"] for r in runs]
            goodput = median([m["goodput_mbps"] for m in own])
            again = 100 * median([m["retransmit_rate"] for m in own])
            queue = median([r["metrics"]["queue_ms.p95"] for r in runs])
            late = any(not r["emulator"]["trusted"] for r in runs if r.get("emulator"))
            cells.append(f"{goodput:.1f}, {again:.2g}, {queue:.0f}" + (" (!)" if late else ""))
        yield f"| {name} | {' | '.join(cells)} |"


def simulator():
    return rows(*run("server/simulator"))


def kernel():
    return rows(*run("server/kernel", options=("--stack", "linux")))


if __name__ == "__main__":
    main(ROOT / "docs/server.md", {"simulator": simulator, "kernel": kernel})
