#!/usr/bin/env python3
"""Writes the tables of docs/bbr3x.md again: between `<!-- NAME -->` and `<!-- end -->`.

    docs/bbr3x.py                    # all of them: 15 minutes on two cores
    docs/bbr3x.py effects limits     # some
    docs/bbr3x.py survey             # SURVEYS=DIR keeps the surveys there, and goes on with them

Needs target/release/fullpipe (cargo build --release).
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tables import FULLPIPE, ROOT, main, median, run

TUNED, HELD_OUT, SEEDS = 1, (2, 3, 4), 3


def effects():
    one, four, beside = run(*(f"bbr3x/amendments{end}" for end in ("", "-four-flows", "-beside-cubic")))
    axis = next(axis for axis in one["axes"] if axis.endswith("bbr3x_without"))
    rows = dict.fromkeys(dict(run["at"])[axis] for run in one["runs"])

    def of(report, without, figure, **at):
        """A figure's median over the seeds."""
        axis = next(axis for axis in report["axes"] if axis.endswith("bbr3x_without"))
        want = {axis: without, **at}
        runs = [r for r in report["runs"] if want.items() <= dict(r["at"]).items()]
        return median([figure(r) for r in runs])

    def metric(name):
        return lambda run: run["metrics"][name]

    def share(run):
        goodputs = [flow["metrics"]["goodput_mbps"] for flow in run["flows"]]
        return goodputs[1] / sum(goodputs)

    yield (
        "| without | 1 flow, 4 BDP: Mbit/s, queue p95 ms | 1 % loss, 1 BDP: Mbit/s | 3 % loss, 1 BDP: Mbit/s "
        "| 4 flows, 1 BDP: Jain, median queue ms | 4 flows, 4 BDP: Jain, median queue ms "
        "| beside CUBIC, 8 BDP: share |"
    )
    yield "|---|---|---|---|---|---|---|"
    for without in rows:
        if "+" in without and without != list(rows)[-1]:
            continue
        name = "—" if without == "none" else "all (the draft)" if "+" in without else f"`{without}`"
        goodput, queue, jain = metric("goodput_mbps"), metric("queue_ms.p95"), metric("jain")
        cells = [f"{of(one, without, goodput, variant='4 BDP'):.1f}, {of(one, without, queue, variant='4 BDP'):.1f}"]
        cells += [f"{of(one, without, goodput, variant=f'{loss} % lost'):.1f}" for loss in (1, 3)]
        for buffer in ("1bdp", "4bdp"):
            p50 = of(four, without, metric("queue_ms.p50"), **{"buffer": buffer})
            cells.append(f"{of(four, without, jain, **{'buffer': buffer}):.2f}, {p50:.0f}")
        cells.append(f"{of(beside, without, share):.2f}")
        yield f"| {name} | {' | '.join(cells)} |"


LIMITS = (
    "one-flow", "one-flow-loss", "random-loss", "jitter-and-loss", "fairness", "beside-cubic", "beside-bbr1", "two-way", "marks",
    "shallow", "short-flow", "long-rtt", "steps", "rtt-step",
)


def limits():
    yield "| file | what is asked for | cases | worst | |"
    yield "|---|---|---|---|---|"
    for name, report in zip(LIMITS, run(*(f"bbr3x/{name}" for name in LIMITS)), strict=True):
        for e in report["expectations"]:
            at = ", ".join(f"{axis} {value}" for axis, value in e["at"])
            worst = f"{e['value']:.4g}" + (f" ({at})" if at else "")
            met = "" if e["met"] else f"**missed in {e['unmet']}**"
            yield f"| {name} | {e['name']} {e['comparison']} {e['bound']:g} | {e['cases']} | {worst} | {met} |"


def survey():
    keep = os.environ.get("SURVEYS")
    with tempfile.TemporaryDirectory() as temporary:
        yield (
            "| seed | | goodput < 0.95 of bbr3's | < 0.85 | worst | < 0.9 of the best of bbr3's and CUBIC's "
            "| queue | Jain | retransmissions |"
        )
        yield "|---|---|---|---|---|---|---|---|---|"
        for seed in (TUNED, *HELD_OUT):
            out = Path(keep or temporary) / f"held{seed}"
            line = f"survey --cc bbr3x,bbr3,bbr3 --against bbr3,cubic --seeds {SEEDS} --seed {seed} --shrink 0"
            subprocess.run([FULLPIPE, *line.split(), "--out", out], stdout=subprocess.DEVNULL, check=True)
            pairs = {(p["cc"], p["against"]): p for p in json.loads((out / "survey.json").read_text())["pairs"]}
            kind = "tuned" if seed == TUNED else "held out"
            for cc, name in (("bbr3x", "bbr3x"), ("bbr3#2", "bbr3 itself")):
                measures = {c["measure"]: c for c in pairs[cc, "bbr3"]["comparisons"]}
                goodput = measures["goodput_mbps"]
                points = {p["path"]: p for p in goodput["points"]}
                cubic = {
                    p["path"]: p
                    for p in pairs[cc, "cubic"]["comparisons"][0]["points"]
                }
                best = [
                    p["own"] / max(p["reference"], cubic[path]["reference"])
                    for path, p in points.items()
                    if max(p["reference"], cubic[path]["reference"]) > 0
                ]
                share = lambda n, of: f"{100 * n / of:.1f} %"  # noqa: E731
                cells = [
                    share(goodput["short"], goodput["paths"]),
                    share(sum(p["figure"] < 0.85 for p in points.values()), len(points)),
                    f"{goodput['worst']:.2f}",
                    share(sum(x < 0.9 for x in best), len(best)),
                ]
                cells += [
                    share(measures[m]["short"], measures[m]["paths"])
                    for m in ("queue_ms.p95", "jain", "retransmit_rate")
                ]
                yield f"| {seed} ({kind}) | {name} | {' | '.join(cells)} |"


# Two paths of a single flow, and what is asked for on them: Mbit/s at least, and a queue p95 of at most, in ms.
QUIC = (("--buffer 6bdp", 92, 12), ("--buffer 1bdp --loss 1%", 89, 12))
QUIC_SEEDS = range(1, 9)


def quic():
    yield "| path | limit | bbr3x: Mbit/s, queue p95 ms | bbr3 | noq:bbr3 |"
    yield "|---|---|---|---|---|"
    for path, most, queue in QUIC:
        line = f"compare --stack noq --cc bbr3x,bbr3,noq:bbr3 --rate 100mbit --rtt 40ms {path} --json"
        of = {}
        for seed in QUIC_SEEDS:
            done = subprocess.run(
                [FULLPIPE, *line.split(), "--seed", str(seed)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
            )
            for run in json.loads(done.stdout)["scenarios"][0]["runs"]:
                of.setdefault(dict(run["at"])["cc"], []).append(run["metrics"])
        cells = []
        for cc in ("bbr3x", "bbr3", "noq:bbr3"):
            pair = []
            for name in ("goodput_mbps", "queue_ms.p95"):
                values = [metrics[name] for metrics in of[cc]]
                pair.append(f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})")
            cells.append(", ".join(pair))
        yield f"| `{path}` | >= {most} Mbit/s, <= {queue} ms | {' | '.join(cells)} |"


TABLES = {"effects": effects, "limits": limits, "quic": quic, "survey": survey}


if __name__ == "__main__":
    main(ROOT / "docs/bbr3x.md", TABLES)
