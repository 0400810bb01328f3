#!/usr/bin/env python3
"""Writes tables of docs/quiche-bbr3.md again: between `<!-- NAME -->` and `<!-- end -->`.

    docs/quiche_bbr3.py                  # all: a minute
    docs/quiche_bbr3.py conditions       # a second

Needs target/release/fullpipe (cargo build --release).
"""

import re
import tempfile
from os.path import commonprefix
from pathlib import Path

from tables import ROOT, main, run

FILES = ["startup", "drain", "transfer", "bandwidth-steps", "pauses", "senders"]
DIR = ROOT / "scenarios/suites/quiche-bbr3"
# What a stack under the virtual clock has not, as fields of a flow.
FIELDS_WITHOUT = {
    "noq": ["mss", "initial_cwnd", "handshake", "quick_acks", "ack_every", "ack_delay"],
    "tcp": ["handshake"],
}
# TCP has 52 bytes of headers around a segment, where the files' rates are for 28.
WIRE = {"noq": 1, "tcp": 1402 / 1378}
# Their flows begin with a handshake, so all that a file says of times is later by so much.
HANDSHAKE_MS = {"noq": 75, "tcp": 65}


def expectations(cc="bbr3", stack=None):
    """Those of each file, with another algorithm or over a stack."""
    with tempfile.TemporaryDirectory() as directory:
        for name in FILES:
            text = (DIR / f"{name}.toml").read_text().replace('cc = "bbr3"', f'cc = "{cc}"', 1)
            options = ()
            if stack:
                for field in FIELDS_WITHOUT[stack]:
                    text = re.sub(rf"^{field} = .*\n", "", text, flags=re.MULTILINE)
                scaled = lambda m: f'{m[1]} = "{round(int(m[2]) * WIRE[stack])}{m[3]}"'
                text = re.sub(r'(rate|buffer) = "(\d+)(kbit|B)"', scaled, text)
                later = lambda m: f"{m[1]}{int(m[2]) * (1 if m[3] == 'ms' else 1000) + HANDSHAKE_MS[stack]}ms"
                text = re.sub(r'((?:before|after|from|to) |(?:at|start) = ")(\d+)(ms|s)\b', later, text)
                options = ("--stack", stack)
            file = Path(directory) / f"{name}.toml"
            file.write_text(text)
            [report] = run(file.with_suffix(""), options=options)
            yield name, report["expectations"]


def conditions_of(all_expectations):
    """The least and the most of one figure are one condition."""
    found = {}
    for one in all_expectations:
        tests, what = one["name"].split(": ", 1)
        theirs = re.search(r" \(QUICHE: (.*)\)", what)
        what = re.sub(r" \(QUICHE: .*\)", "", what)
        base = re.sub(r", (least|most)$", "", what)
        found.setdefault((tests, base, theirs and theirs[1]), []).append(one)
    return found


def number(value):
    return "none" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def limits(ones):
    if len(ones) == 2:
        return f"{number(ones[0]['bound'])} to {number(ones[1]['bound'])}"
    sign = {"<=": "at most ", ">=": "at least ", "==": "", "<": "below ", ">": "above "}
    return sign[ones[0]["comparison"]] + number(ones[0]["bound"])


def measured(ones):
    return " to ".join(dict.fromkeys(number(one["value"]) for one in ones))


def code(tests):
    """`Drain`, or `Bbr2VsReno{,B2RC}`."""
    names = tests.split(", ")
    if len(names) == 1:
        return f"`{tests}`"
    prefix = commonprefix(names)
    suffix = commonprefix([name[len(prefix) :][::-1] for name in names])[::-1]
    middles = [name[len(prefix) : len(name) - len(suffix)] for name in names]
    return f"`{prefix}{{{','.join(middles)}}}{suffix}`"


def conditions():
    """Those that are not met with QUICHE's own limit. Tests whose limits and figures are the same have one row."""
    yield "| test | condition | QUICHE's limit | our limit | `bbr3` | met |"
    yield "|---|---|---|---|---|---|"
    others = 0
    for _, ones in expectations():
        rows = {}
        for (tests, what, theirs), parts in conditions_of(ones).items():
            ours = limits(parts)
            met = "yes" if all(one["met"] for one in parts) else "no"
            kind = re.match(r"[A-Z][a-z]*[A-Z]?[a-z]*", tests)[0]
            rows.setdefault((kind, what, theirs or ours, ours, measured(parts), met), []).append(tests)
        for (_, *cells), tests in rows.items():
            _, theirs, ours, _, met = cells
            if theirs == ours and met == "yes":
                others += 1
            else:
                yield f"| {code(', '.join(tests))} | {' | '.join(cells)} |"
    yield ""
    yield f"The {others} others are met with QUICHE's own limit."


def counts(columns):
    """Conditions of QUICHE's that are met, of each file and of all; one of several tests counts for each."""
    yield f"| file | conditions | {' | '.join(f'`{name}`' for name in columns)} |"
    yield "|---" * (len(columns) + 2) + "|"
    rows, all_met = [], {name: 0 for name in columns}
    everything = 0
    for name in FILES:
        met = {}
        for column, reports in columns.items():
            found = conditions_of(reports[name])
            weight = {key: len(key[0].split(", ")) for key in found if key[2] != "not asked"}
            total = sum(weight.values())
            met[column] = sum(n for key, n in weight.items() if all(one["met"] for one in found[key]))
            all_met[column] += met[column]
        everything += total
        rows.append(f"| {name} | {total} | {' | '.join(str(met[column]) for column in columns)} |")
    yield from rows
    yield f"| all | {everything} | {' | '.join(str(n) for n in all_met.values())} |"


def unmet(columns):
    yield ""
    yield "| test | condition | limit | " + " | ".join(f"`{name}`" for name in columns) + " |"
    yield "|---" * (len(columns) + 3) + "|"
    for name in FILES:
        found = {column: conditions_of(reports[name]) for column, reports in columns.items()}
        for key in next(iter(found.values())):
            parts = {column: found[column][key] for column in columns}
            if all(one["met"] for ones in parts.values() for one in ones):
                continue
            cells = [measured(ones) + ("" if all(one["met"] for one in ones) else " (no)") for ones in parts.values()]
            first = next(iter(parts.values()))
            yield f"| {code(key[0])} | {key[1]} | {limits(first)} | {' | '.join(cells)} |"


def algorithms():
    columns = {cc: dict(expectations(cc=cc)) for cc in ["bbr3", "bbr3x", "bbr1"]}
    yield from counts(columns)
    yield from unmet({name: columns[name] for name in ["bbr3", "bbr3x"]})


def stacks():
    columns = {"sim": dict(expectations())}
    columns |= {stack: dict(expectations(stack=stack)) for stack in FIELDS_WITHOUT}
    yield from counts(columns)
    yield from unmet(columns)


if __name__ == "__main__":
    main(ROOT / "docs/quiche-bbr3.md", {"conditions": conditions, "algorithms": algorithms, "stacks": stacks})
