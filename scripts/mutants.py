"""Counts what cargo-mutants found, by file: scripts/mutants.sh runs it.

With a second argument the rows of these files are written into that page. Fails when more than 8 of
100 viable mutants survive; in a sample (no second argument) chance adds two standard deviations.
"""

import json
import math
import re
import sys
from pathlib import Path

SURVIVORS_PERCENT = 8
BEGIN = "<!-- scripts/mutants.sh writes this table -->\n"
END = "<!-- up to here -->\n"
HEAD = "| file | viable | caught | survive |\n|---|---:|---:|---:|\n"

by_file: dict[str, list[int]] = {}
survivors = []
for outcome in json.loads(Path(sys.argv[1]).read_text())["outcomes"]:
    if outcome["scenario"] == "Baseline":
        continue
    mutant = outcome["scenario"]["Mutant"]
    file = mutant["file"].removeprefix("crates/cc/src/")
    counts = by_file.setdefault(file, [0, 0])
    match outcome["summary"]:
        case "CaughtMutant" | "Timeout":
            counts[0] += 1
        case "MissedMutant":
            counts[1] += 1
            survivors.append(mutant["name"])

for name in survivors:
    print("survives:", name)
for file, (caught, missed) in sorted(by_file.items()):
    print(f"{file:32} {caught + missed:5} viable {caught:5} caught {missed:4} survive")
viable = sum(map(sum, by_file.values()))
missed = sum(missed for _, missed in by_file.values())
print(f"{missed} of {viable} viable mutants survive ({100 * missed / max(viable, 1):.1f} %)")

if len(sys.argv) > 2:
    page = Path(sys.argv[2])
    before, rest = page.read_text().split(BEGIN)
    table, after = rest.split(END)
    rows = {}
    for row in re.finditer(r"^\| `(.+)` \| \d+ \| (\d+) \| (\d+) \|$", table, re.M):
        rows[row[1]] = [int(row[2]), int(row[3])]
    rows |= by_file
    lines = [f"| `{f}` | {c + m} | {c} | {m} |\n" for f, (c, m) in sorted(rows.items())]
    page.write_text(before + BEGIN + HEAD + "".join(lines) + END + after)

share = SURVIVORS_PERCENT / 100
chance = 0 if len(sys.argv) > 2 else 2 * math.sqrt(viable * share * (1 - share))
sys.exit(missed > viable * share + chance)
