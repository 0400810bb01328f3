#!/usr/bin/env python3
"""Writes the table of docs/accuracy.md that runs the worst paths of a survey over real stacks.

    sudo docs/real_paths.py                # quarter of an hour; KEEP=DIR keeps the files and results

Needs target/release/fullpipe with the kernel program (cargo build --release --features kernel), and
for the kernel's TCP, which runs in real time, a machine that does nothing else.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tables import FULLPIPE, ROOT, main

SEEDS = 7
# Without a host that is late at will, which the kernel's TCP does not have here.
EVERYWHERE = (
    "jitter,reordering,ack-bursts,ack-loss,rtt-step,rate-step,policer,shaper,random-loss,loss-bursts,trace,cross,"
    "aqm,many-flows,requests,media,rtt-mix,competitor"
)
# The folder, its kinds, how many of its paths, and whether Linux runs them too.
SURVEYS = (("survey", EVERYWHERE, 10, True), ("both-ways", "two-way,late-host", 5, False))


def fullpipe(*arguments):
    """Standard output. 1 says that an expectation is not met, which all of these files are for."""
    done = subprocess.run([FULLPIPE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"fullpipe {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def worst(folder, kinds, paths):
    """The worst paths in goodput of each pair in turn, each path once."""
    line = f"survey --cc bbr3x,bbr3,cubic --against bbr3,cubic --seed 1 --shrink 6 --kind {kinds}"
    if not (folder / "printed").exists():
        printed = fullpipe(*line.split(), "--out", folder)
        (folder / "printed").write_bytes(printed)
    pairs = {}
    for file in sorted((folder / "worst").glob("*-goodput-*.toml")):
        pairs.setdefault(file.stem.rsplit("-", 1)[0], []).append(file)
    seen, chosen = set(), []
    for place in range(6):
        for files in pairs.values():
            if place >= len(files) or len(chosen) == paths:
                continue
            path = re.search(r"as path (\d+) of", files[place].read_text())[1]
            if path not in seen:
                seen.add(path)
                chosen.append(files[place])
    return chosen


def goodputs(report):
    """By algorithm: the goodputs of the runs, and whether the link was late in one."""
    figures, late = {}, False
    for run in json.loads(report)["scenarios"][0]["runs"]:
        figures.setdefault(dict(run["at"])["cc"], []).append(run["metrics"]["goodput_mbps"])
        late |= not run.get("emulator", {"trusted": True})["trusted"]
    return figures, late


def virtual(file, stack, transport, folder):
    """Over a virtual clock, with SEEDS seeds."""
    text = file.read_text()
    first = int(re.search(r"^seed = (\d+)$", text, re.MULTILINE)[1])
    seeds = ", ".join(str(first + n) for n in range(SEEDS))
    text = re.sub(r"^seed = \d+$", f"seed = [{seeds}]", text, flags=re.MULTILINE)
    changed = folder / f"{file.stem}-{transport}.toml"
    text = over(text, transport)
    if (stack, transport) == ("sim", "quic"):
        # noq keeps the rate with a pacer of its own.
        text = text.replace("[[flow]]\n", '[[flow]]\npacer = "noq"\n')
    if (stack, transport) == ("sim", "tcp"):
        # The kernel program has Linux's flavour.
        text = re.sub(r"\b(bbr3x?)\b", r"\1-linux", text)
    changed.write_text(text)
    found = goodputs(fullpipe("run", changed, "--stack", stack, "--json"))[0]
    return {cc.removesuffix("-linux"): values for cc, values in found.items()}


def over(text, transport):
    text = re.sub(r"^transport = .*\n", "", text, flags=re.MULTILINE)
    return text.replace("[[flow]]\n", f'[[flow]]\ntransport = "{transport}"\n')


def linux(file, folder):
    """Over the kernel's TCP, once."""
    kept = folder / f"{file.stem}-tcp.json"
    if not kept.exists():
        changed = folder / f"{file.stem}-tcp.toml"
        changed.write_text(over(file.read_text(), "tcp"))
        kept.write_bytes(fullpipe("run", changed, "--stack", "linux", "--json"))
    return goodputs(kept.read_bytes())


def middle(values):
    return sorted(values)[len(values) // 2]


def span(values):
    return f"{middle(values):.3g} ({min(values):.3g}–{max(values):.3g})"


def off(of, reference):
    """The difference of the two medians; above 5 % bold, or with a tilde where the spans overlap."""
    apart = middle(of) / middle(reference) - 1 if middle(reference) else 0
    text = f"{100 * apart:+.1f}"
    overlap = min(of) <= max(reference) and min(reference) <= max(of)
    return text if abs(apart) <= 0.05 else f"{text} ~" if overlap else f"**{text}**"


def rows(keep):
    yield "| path | algorithm | simulator, QUIC with noq's pacer: Mbit/s | noq | off, % | simulator, TCP | Linux | off, % |"
    yield "|---|---|---|---|---|---|---|---|"
    for folder, kinds, paths, has_linux in SURVEYS:
        printed = None
        for file in worst(keep / folder, kinds, paths):
            printed = printed or (keep / folder / "printed").read_text()
            name = re.search(rf"{re.escape(file.name)} \([^)]*\): (.*)", printed)[1]
            quic, noq = virtual(file, "sim", "quic", keep), virtual(file, "noq", "quic", keep)
            tcp, (kernel, late) = {}, ({}, False)
            if has_linux:
                tcp, (kernel, late) = virtual(file, "sim", "tcp", keep), linux(file, keep)
            for row, cc in enumerate(quic):
                cells = [name if row == 0 else "", cc, span(quic[cc]), span(noq[cc]), off(noq[cc], quic[cc])]
                if has_linux:
                    mark = " (!)" if late else ""
                    cells += [span(tcp[cc]), f"{kernel[cc][0]:.3g}{mark}", off(kernel[cc], tcp[cc])]
                else:
                    cells += ["", "", ""]
                yield f"| {' | '.join(cells)} |"


def worst_paths():
    with tempfile.TemporaryDirectory() as temporary:
        keep = Path(os.environ.get("KEEP", temporary))
        keep.mkdir(parents=True, exist_ok=True)
        yield from rows(keep)


if __name__ == "__main__":
    main(ROOT / "docs/accuracy.md", {"worst": worst_paths})
