#!/usr/bin/env python3
"""Compares bbr3-linux in the simulator with Linux's own BBRv3.

    docs/linux_v3.py                 # 10 s

Writes what the files of scenarios/suites/linux-v3 expect, and the table of docs/accuracy.md.
linux-v3.json holds what a kernel with BBRv3 did. Needs target/release/fullpipe.
"""

import json

from tables import ROOT, main, median, run

LINUX = json.loads((ROOT / "docs/linux-v3.json").read_text())
SUITE = "suites/linux-v3"
# Linux's range from the least to the most is widened by this part of each.
WIDENED = 0.03
FIGURES = {
    "goodput_mbps": ("goodput in Mbit/s", "median(goodput_mbps over seed)"),
    "queue_ms.p50": ("median queue in ms", "median(queue_ms.p50 over seed)"),
    "queue_ms.p95": ("95 % of the queue in ms", "median(queue_ms.p95 over seed)"),
    "retransmit_percent": ("retransmitted %", "100 * median(retransmit_rate over seed)"),
}
ROWS = {
    "linux": "Linux",
    "bpf": "`bbr3-linux` in the kernel",
    "model": "Linux's source in a model",
    "simulator": "`bbr3-linux` in the simulator",
}


def span(values):
    return [median(values), min(values), max(values)]


def simulated():
    """Median, least and most of each figure, by file."""
    files = [path["file"] for path in LINUX["paths"] if "file" in path]
    paths = {}
    for file, report in zip(files, run(*(f"{SUITE}/{file}" for file in files))):
        metrics = [one["metrics"] for one in report["runs"]]
        for one in metrics:
            one["retransmit_percent"] = 100 * one["retransmit_rate"]
        paths[file] = {name: span([one[name] for one in metrics]) for name in FIGURES}
        paths[file]["runs"] = len(metrics)
    return paths


def bounds(values):
    return round(values[1] * (1 - WIDENED), 4), round(values[2] * (1 + WIDENED), 4)


def is_within(value, values):
    least, most = bounds(values)
    return least <= value <= most


def expected(path, simulator):
    """The lines of a file's `expect`."""
    for name, (words, formula) in FIGURES.items():
        value = simulator[name][0]
        least, most = bounds(path["linux"][name])
        rows = [row for row in ("bpf", "model") if row in path]
        others = [f"{ROWS[row].replace('`', '')} {path[row][name][0]:.4g}" for row in rows]
        why = f"{value:.4g}; {', '.join(others)}"
        for bound, limit, is_met in [(">=", least, value >= least), ("<=", most, value <= most)]:
            if bound == ">=" and limit == 0:
                continue
            that = f'"{words}: {formula} {bound} {limit:.10g}"'
            yield f"    {that}," if is_met else f'    {{ that = {that}, known_failure = "{why}" }},'


def write_expected(simulator):
    for path in LINUX["paths"]:
        if "file" not in path:
            continue
        file = ROOT / "scenarios" / SUITE / f"{path['file']}.toml"
        lines = "".join(f"{line}\n" for line in expected(path, simulator[path["file"]]))
        before, rest = file.read_text().split("expect = [\n")
        _, after = rest.split("\n]\n")
        file.write_text(f"{before}expect = [\n{lines}]\n{after}")


def figures():
    simulator = simulated()
    write_expected(simulator)
    yield "| path | Mbit/s | median queue, ms | p95 of the queue, ms | retransmitted, % |"
    yield "|---|---|---|---|---|"
    met = {"bpf": 0, "simulator": 0}
    for path in LINUX["paths"]:
        rows = path | ({"simulator": simulator[path["file"]]} if "file" in path else {})
        cells = []
        for name in FIGURES:
            medians = []
            for row in ROWS:
                text = f"{rows[row][name][0]:.4g}" if row in rows else "-"
                if row in met and row in rows:
                    is_met = is_within(rows[row][name][0], path["linux"][name])
                    met[row] += is_met
                    text = text if is_met else f"**{text}**"
                medians.append(text)
            cells.append(", ".join(medians))
        yield f"| {path['path']} | {' | '.join(cells)} |"
    for row, words in [("simulator", ROWS["simulator"]), ("bpf", ROWS["bpf"])]:
        of = len(FIGURES) * sum(row == "bpf" or "file" in path for path in LINUX["paths"])
        yield ""
        yield f"{words}: {met[row]} of {of} figures within."


main(ROOT / "docs/accuracy.md", {"linux-v3": figures})
