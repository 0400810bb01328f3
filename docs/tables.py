"""Parts of the programs that write the tables of these pages: between `<!-- NAME -->` and `<!-- end -->`."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FULLPIPE = ROOT / "target/release/fullpipe"


def run(*names, options=()):
    """The reports of scenario files. 1 says that an expectation is not met, which the table shows."""
    files = [ROOT / "scenarios" / f"{name}.toml" for name in names]
    done = subprocess.run([FULLPIPE, "run", *files, "--json", *options], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"fullpipe run {' '.join(names)} ended with {done.returncode}")
    return json.loads(done.stdout)["scenarios"]


def median(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def main(page, tables):
    """Writes those tables of a page that the command line names, or all: functions that yield lines."""
    wanted = sys.argv[1:] or list(tables)
    for name in wanted:
        if name not in tables:
            sys.exit(f"{sys.argv[0]}: there is no table '{name}'; there are {', '.join(tables)}")
    for name in wanted:
        table = "\n".join(tables[name]())
        text = page.read_text()
        new, count = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text, flags=re.DOTALL
        )
        if count != 1:
            sys.exit(f"{page}: {count} places for the table '{name}'")
        page.write_text(new)
