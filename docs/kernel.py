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
    return done.stdout.decode().rstrip().split("\n")


main(ROOT / "docs/kernel.md", {"figures": figures})
