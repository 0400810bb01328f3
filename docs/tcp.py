#!/usr/bin/env python3
"""Writes tables of docs/tcp.md again: between `<!-- NAME -->` and `<!-- end -->`.

    docs/tcp.py ack-jitter           # half a minute
    sudo docs/tcp.py real-time       # 6 minutes, on a quiet machine

Needs target/release/fullpipe (cargo build --release --features full).
"""

from tables import ROOT, main, median, run


def at(run):
    axes = dict(run["at"])
    return axes["variant"], axes["cc"]


def ack_jitter():
    yield "| ACKs late by up to | algorithm | Mbit/s | queue p50, p95, ms | max_bw, of 386.1 |"
    yield "|---|---|---|---|---|"
    [report] = run("tcp-user/ack-jitter", options=("--stack", "tcp"))
    for one in report["runs"]:
        variant, cc = at(one)
        m = one["metrics"]
        # Past Startup.
        believed = median([row["max_bw_mbps"] for row in one["series"] if row["t_s"] > 3])
        queue = f"{m['queue_ms.p50']:.1f}, {m['queue_ms.p95']:.1f}"
        yield f"| {variant} | {cc} | {m['goodput_mbps']:.1f} | {queue} | {believed:.1f} |"


def real_time():
    [report] = run("tcp-user/real-time", options=("--stack", "tcp", "--clock", "real"))
    runs = {at(one): one for one in report["runs"]}
    algorithms = list(dict.fromkeys(cc for _, cc in runs))
    yield f"| path | {' | '.join(algorithms)} |"
    yield "|---" * (len(algorithms) + 1) + "|"
    for variant in dict.fromkeys(variant for variant, _ in runs):
        cells = []
        for cc in algorithms:
            one = runs[variant, cc]
            m = one["metrics"]
            late = "" if one["emulator"]["trusted"] else " (!)"
            queue = f"{m['queue_ms.p50']:.1f}, {m['queue_ms.p95']:.1f}"
            cells.append(f"{m['goodput_mbps']:.1f}; {queue}{late}")
        yield f"| {variant} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main(ROOT / "docs/tcp.md", {"ack-jitter": ack_jitter, "real-time": real_time})
