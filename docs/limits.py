#!/usr/bin/env python3
"""Writes the tables of docs/limits.md again: between `<!-- NAME -->` and `<!-- end -->`.

    docs/limits.py                      # both, in the simulator: four minutes on two busy cores
    docs/limits.py beside-cubic         # one
    SEEDS=11-30 docs/limits.py          # with other seeds than the files'

Needs target/release/fullpipe (cargo build --release).
"""

import os
import tempfile
from pathlib import Path

from tables import ROOT, main, run


def reports(name):
    """The runs of a scenario file, with the seeds of SEEDS in the place of its own."""
    seeds = os.environ.get("SEEDS")
    if seeds is None:
        return run(f"limits/{name}")[0]["runs"]
    first, last = (int(n) for n in seeds.split("-"))
    lines = (ROOT / f"scenarios/limits/{name}.toml").read_text().splitlines()
    ours = [f"seed = {list(range(first, last + 1))}" if line.startswith("seed = ") else line for line in lines]
    with tempfile.TemporaryDirectory() as dir:
        file = Path(dir) / f"{name}.toml"
        file.write_text("\n".join(ours))
        # An absolute path takes the place of the folder of scenarios.
        return run(file.with_suffix(""))[0]["runs"]


def shares(runs, **at):
    """Mean, least and most of what BBRv3, the second flow, has of both flows' goodput."""
    found = [run["flows"][1]["metrics"]["share"] * 100 for run in runs if at.items() <= dict(run["at"]).items()]
    return f"{sum(found) / len(found):.0f} % ({min(found):.0f} to {max(found):.0f})"


def values(runs, axis):
    return dict.fromkeys(dict(run["at"])[axis] for run in runs)


def seeds_of(runs):
    return f"seeds {' to '.join(str(edge(run['seed'] for run in runs)) for edge in (min, max))}"


def beside_cubic():
    runs = reports("beside-cubic")
    yield f"| buffer | share of BBRv3, {seeds_of(runs)} |"
    yield "|---|---|"
    for buffer in values(runs, "buffer"):
        yield f"| {buffer.removesuffix('bdp')} BDP | {shares(runs, buffer=buffer)} |"


def beside_cubic_rtt():
    runs = reports("beside-cubic-rtt")
    transports = values(runs, "variant")
    yield f"| RTT | {' | '.join(f'over {name}, {seeds_of(runs)}' for name in transports)} |"
    yield f"|---|{'---|' * len(transports)}"
    for rtt in values(runs, "rtt"):
        cells = (shares(runs, rtt=rtt, variant=name) for name in transports)
        yield f"| {rtt.removesuffix('ms')} ms | {' | '.join(cells)} |"


if __name__ == "__main__":
    main(
        ROOT / "docs/limits.md",
        {"beside-cubic": beside_cubic, "beside-cubic-rtt": beside_cubic_rtt},
    )
