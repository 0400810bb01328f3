"""Counts what cargo-mutants found, by file: scripts/mutants.sh runs it.

With a second argument the rows of these files are written into that page. Fails when more than 8 of
100 viable mutants of the core survive, or 12 of the TCP; in a sample (no second argument) chance
adds two standard deviations.
"""

import json
import math
import re
import sys
from pathlib import Path

SURVIVORS_PERCENT = {"cc": 8, "units": 8, "tcp": 12}
BEGIN = "<!-- scripts/mutants.sh writes this table -->\n"
END = "<!-- up to here -->\n"
HEAD = "| file | viable | caught | survive |\n|---|---:|---:|---:|\n"

by_file: dict[str, list[int]] = {}
crates = set()
survivors = []
for outcome in json.loads(Path(sys.argv[1]).read_text())["outcomes"]:
    if outcome["scenario"] == "Baseline":
        continue
    mutant = outcome["scenario"]["Mutant"]
    crate, file = re.fullmatch(r"crates/(\w+)/src/(.+)", mutant["file"]).groups()
    crates.add(crate)
    file = file if crate == "cc" else f"{crate}/{file}"
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

share = min((SURVIVORS_PERCENT[crate] for crate in crates), default=0) / 100
chance = 0 if len(sys.argv) > 2 else 2 * math.sqrt(viable * share * (1 - share))
sys.exit(missed > viable * share + chance)
