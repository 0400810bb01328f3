#!/usr/bin/env python3
"""Writes the table of docs/accuracy.md that compares bbr3-linux with Linux's own BBRv3.

    docs/linux_v3.py                 # a minute; the simulator's half alone is made anew

linux-v3.json holds what a kernel with BBRv3 did. Needs target/release/fullpipe.
"""

import json

from tables import ROOT, main, median, run

FIGURES = ["goodput_mbps", "queue_ms.p50", "queue_ms.p95", "retransmit_percent"]


def simulated():
    """The values of each figure over the seeds, by path."""
    [report] = run("kernel/linux-v3")
    paths = {}
    for one in report["runs"]:
        metrics = one["metrics"] | {"retransmit_percent": 100 * one["metrics"]["retransmit_rate"]}
        path = paths.setdefault(dict(one["at"])["variant"], {})
        for name in FIGURES:
            path.setdefault(name, []).append(metrics[name])
    return paths


def cell(middle, least, most):
    return f"{middle:.4g} ({least:.4g} to {most:.4g})" if least < most else f"{middle:.4g}"


def figures():
    paths = simulated()
    yield "| path | | runs | Mbit/s | median queue ms | queue ms: 95 % | retransmitted % |"
    yield "|---|---|---|---|---|---|---|"
    for linux in json.loads((ROOT / "docs/linux-v3.json").read_text())["paths"]:
        cells = [cell(*linux[name]) for name in FIGURES]
        yield f"| {linux['path']} | Linux | {linux['runs']} | {' | '.join(cells)} |"
        if values := paths.get(linux["path"]):
            cells = [cell(median(values[name]), min(values[name]), max(values[name])) for name in FIGURES]
            yield f"| | simulator | {len(values['goodput_mbps'])} | {' | '.join(cells)} |"


main(ROOT / "docs/accuracy.md", {"linux-v3": figures})
