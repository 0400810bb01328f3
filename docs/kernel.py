#!/usr/bin/env python3
"""Writes the table of docs/kernel.md that `fullpipe kernel figures` prints.

    sudo docs/kernel.py              # a quarter of an hour, on a quiet machine

Needs target/release/fullpipe with the kernel program (cargo build --release --features kernel).
"""

import subprocess
import sys

from tables import FULLPIPE, ROOT, main


def figures():
    done = subprocess.run([FULLPIPE, "kernel", "figures"], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"fullpipe kernel figures ended with {done.returncode}")
    path = None
    for line in done.stdout.decode().rstrip().split("\n"):
        first, _, rest = line.removeprefix("|").partition("|")
        # A path is written in the first of its rows.
        yield f"| |{rest}" if line.startswith("|") and first == path else line
        path = first


main(ROOT / "docs/kernel.md", {"figures": figures})
