#!/usr/bin/env python3
"""Writes the tables of docs/c4.md: the cases of C4's tests, in the simulator and over two stacks.

    docs/c4.py                 # all tables: ten minutes
    docs/c4.py c4              # one of them

Needs target/release/fullpipe.
"""

import json
import re
import subprocess
import sys
import tomllib

from tables import FULLPIPE, ROOT, main

SUITE = ROOT / "scenarios/suites/c4"
ALGORITHMS = ["bbr3x", "bbr3", "bbr1", "cubic"]
STACKS = ["sim", "noq", "tcp"]
STACK_SEEDS = 3


def split(text):
    """What stands before and after the expectations of a file."""
    before, rest = text.split("expect = [\n")
    return before, rest.split("\n]\n", 1)[1]


def expectations(text):
    return [one if isinstance(one, str) else one["that"] for one in tomllib.loads(text)["expect"]]


def results(case, stack, algorithms, seeds):
    """By algorithm a pair of value and limit of each expectation, or what the stack says."""
    text = (SUITE / f"{case}.toml").read_text()
    before, after = split(text)
    before = re.sub(r"cc = \[.*?\]", f"cc = {json.dumps(algorithms)}", before, count=1)
    # A row of the series a run, and no more.
    before = re.sub(r"(?s)seed = \[.*?\]\n", f'seed = {list(range(1, seeds + 1))}\ninterval = "60s"\n', before)
    wanted = [that.replace("[bbr3x]", f"[{cc}]") for cc in algorithms for that in expectations(text)]
    lines = "".join(f"    {json.dumps(that)},\n" for that in wanted)
    done = subprocess.run(
        [FULLPIPE, "run", "-", "--stack", stack, "--json"],
        input=f"{before}expect = [\n{lines}]\n{after}",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"{case} over {stack}: {done.stderr.splitlines()[-1]}")
    said = json.loads(done.stdout)["scenarios"][0]["expectations"]
    pairs = [(one["value"], one["bound"]) for one in said]
    each = len(pairs) // len(algorithms)
    return {cc: pairs[i * each : (i + 1) * each] for i, cc in enumerate(algorithms)}


def is_met(pairs):
    return all(value is not None and value <= limit for value, limit in pairs)


def cell(pairs):
    """The worse of the main flow and the audio: of media their mean and their longest."""
    worst = [max((value for value, _ in pairs[i::2]), default=None) for i in range(min(2, len(pairs)))]
    digits = 3 if len(pairs) == 1 else 1
    text = ", ".join("never" if value is None else f"{value:.{digits}f}" for value in worst)
    return text if is_met(pairs) else f"**{text}**"


def table(columns, only_missed=False):
    """`columns`: by heading stack, algorithm and number of seeds. `only_missed`: without cases that all meet."""
    cases = sorted(file.stem for file in SUITE.glob("*.toml"))
    yield f"| case | limit | {' | '.join(columns)} |"
    yield "|---|---|" + "---|" * len(columns)
    met = dict.fromkeys(columns, 0)
    groups = {}
    for heading, (stack, cc, seeds) in columns.items():
        groups.setdefault((stack, seeds), []).append((heading, cc))
    for case in cases:
        cells, missed = {}, False
        for (stack, seeds), parts in groups.items():
            found = results(case, stack, [cc for _, cc in parts], seeds)
            for heading, cc in parts:
                cells[heading] = cell(found[cc])
                met[heading] += is_met(found[cc])
                missed = missed or not is_met(found[cc])
                limits = [limit for _, limit in found[cc][:2]]
        if only_missed and not missed:
            continue
        limit = ", ".join(f"{one:g}" for one in limits)
        yield f"| `{case}` | {limit} | {' | '.join(cells[heading] for heading in columns)} |"
    yield f"| met | of {len(cases)} | {' | '.join(str(met[heading]) for heading in columns)} |"


def in_simulator():
    return table({f"`{cc}`": ("sim", cc, 100) for cc in ALGORITHMS})


def over_stacks():
    return table({stack: (stack, "bbr3x", STACK_SEEDS) for stack in STACKS}, only_missed=True)


if __name__ == "__main__":
    main(ROOT / "docs/c4.md", {"c4": in_simulator, "c4-stacks": over_stacks})
