#!/usr/bin/env python3
"""Writes the table of docs/l4s.md that has picoquic's Prague beside ours.

    scripts/prague-beside-picoquic.py SOURCE BUILD     # four minutes

SOURCE is picoquic's directory and BUILD one in which cmake built its simulator, `pico_sim`, with
OpenSSL. Nothing is fetched or built. Needs gdb, and target/release/fullpipe (cargo build
--release); FULLPIPE names another one.

picoquic's simulator writes the ECN field of all packets by the default algorithm of a context,
which its specifications cannot name: it is Reno's, and so everything is ECT(0). gdb puts Prague in
its place before the program begins. A packet takes whole microseconds there, which are cut: a link
of 100 Mbit/s carries 100.2.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/l4s.md"
FULLPIPE = os.environ.get("FULLPIPE", ROOT / "target/release/fullpipe")
GBPS = 0.1
RATE = GBPS * 1e9 / 8
# A microsecond is 2^20 of its picoseconds.
PICOSECONDS_PER_BYTE = int(8000 / GBPS * 1.024 * 1.024)
SECONDS = 40
RTTS_MS = (5, 20, 50)
FLOWS = (1, 4)
GDB = """set confirm off
break main
run
set var *(long*)&picoquic_newreno_algorithm = *(long*)&picoquic_prague_algorithm
continue
"""
DATAGRAM = re.compile(r'^\[(\d+), "transport", "datagram_sent", .*?"byte_length": (\d+)')
COUNTS = re.compile(r'"ect0": (\d+), "ect1": (\d+), "ce": (\d+)')
REFERENCE = re.compile(r'"reference_time": "(\d+)"')


def specification(rtt_ms, flows, directory):
    """The links, and transfers that last longer than what is looked at."""
    volume = int(1.3 * RATE * SECONDS / flows)
    lines = [
        f"main_scenario_text: =b1:*1:397:{volume};",
        "main_cc_algo: prague",
        f"nb_connections: {flows}",
        "main_target_time: 1000000000",
        f"data_rate_in_gbps: {GBPS}",
        f"latency: {500 * rtt_ms}",
        f"queue_delay_max: {200_000 + 500 * rtt_ms}",
        # The ramp of RFC 9332 appendix A: from 0.8 to 1.2 ms.
        "l4s_max: 1201",
        f"qlog_dir: {directory}",
    ]
    if flows > 1:
        lines += [f"background_scenario_text: =b1:*1:397:{volume};", "background_cc_algo: prague"]
    return "\n".join(lines) + "\n"


def sent(log):
    """Time in microseconds and bytes of each datagram of a server's log, and its packets as the client counted them."""
    reference, datagrams, counts = 0, [], (0, 0, 0)
    for line in log.open():
        if found := REFERENCE.search(line):
            reference = int(found[1])
        if found := DATAGRAM.match(line):
            datagrams.append((reference + int(found[1]), int(found[2])))
        if found := COUNTS.search(line):
            counts = max(counts, tuple(map(int, found.groups())), key=sum)
    return datagrams, counts


def of_picoquic(source, build, rtt_ms, flows):
    """The share of the link that is used, and the queueing delays in ms: as a row of the table."""
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        (here / "gdb").write_text(GDB)
        (here / "spec").write_text(specification(rtt_ms, flows, directory))
        command = ["gdb", "-q", "-batch", "-x", "gdb", "--args", build / "pico_sim", "-S", source, "spec"]
        done = subprocess.run(command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        logs = [sent(log) for log in here.glob("*.server.qlog")]
    said = done.stdout.decode(errors="replace")
    if len(logs) != flows or "exited normally" not in said:
        sys.exit(f"pico_sim has {len(logs)} logs of {flows} flows:\n{said}")
    for datagrams, (ect0, ect1, _) in logs:
        if ect0 > 0 or ect1 == 0:
            sys.exit(f"{ect0} packets arrived as ECT(0) and {ect1} as ECT(1): gdb could not change the algorithm")
        if datagrams[-1][0] < SECONDS * 1e6:
            sys.exit(f"a flow ended after {datagrams[-1][0] / 1e6:.0f} s")
    packets = sorted(datagram for datagrams, _ in logs for datagram in datagrams)
    # The low-latency queue is the only one that is used, and drops nothing: what waits is known by
    # the times of sending.
    free_us, delays, used_us = 0, [], 0
    for at_us, size in packets:
        starts_us = max(free_us, at_us)
        takes_us = max(1, PICOSECONDS_PER_BYTE * size >> 20)
        free_us = starts_us + takes_us
        if free_us < SECONDS * 1e6:
            delays.append((starts_us - at_us) / 1e3)
            used_us += takes_us
    return used_us / (SECONDS * 1e6), quantiles(delays), [volume(datagrams) for datagrams, _ in logs]


def volume(datagrams):
    return sum(size for at_us, size in datagrams if at_us < SECONDS * 1e6)


def quantiles(values):
    values.sort()
    return [values[int(share * (len(values) - 1))] for share in (0.5, 0.95, 0.99)]


def of_ours():
    """The same of scenarios/l4s/alone.toml, by round trip and flows."""
    command = [FULLPIPE, "run", ROOT / "scenarios/l4s/alone.toml", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"fullpipe run ended with {done.returncode}")
    rows = {}
    for run in json.loads(done.stdout)["scenarios"][0]["runs"]:
        at = dict(run["at"])
        if (at["variant"], at["cc"]) == ("DualPI2", "prague"):
            metrics = run["metrics"]
            delays = [metrics[f"queue_ms.{quantile}"] for quantile in ("p50", "p95", "p99")]
            each = [flow["metrics"]["goodput_mbps"] for flow in run["flows"]]
            rows[int(at["rtt"].removesuffix("ms")), int(at["count"])] = metrics["utilization"], delays, each
    return rows


def row(rtt_ms, flows, name, figures):
    used, (p50, p95, p99), each = figures
    ratio = f"{max(each) / min(each):.2f}" if flows > 1 else ""
    return f"| {rtt_ms} ms | {flows} | {name} | {100 * used:.1f} % | {p50:.2f} | {p95:.2f} | {p99:.2f} | {ratio} |"


def main():
    if len(sys.argv) != 3 or not (Path(sys.argv[2]) / "pico_sim").is_file():
        print("write picoquic's source and the directory with pico_sim: prague-beside-picoquic.py SOURCE BUILD", file=sys.stderr)
        sys.exit(2)
    source, build = (Path(argument).resolve() for argument in sys.argv[1:])
    ours = of_ours()
    lines = [
        "| RTT | flows | | used | queue p50, ms | p95 | p99 | most over least |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rtt_ms in RTTS_MS:
        for flows in FLOWS:
            lines.append(row(rtt_ms, flows, "`prague`", ours[rtt_ms, flows]))
            lines.append(row(rtt_ms, flows, "picoquic's", of_picoquic(source, build, rtt_ms, flows)))
    table = "\n".join(lines)
    text = PAGE.read_text()
    new, count = re.subn(r"(<!-- picoquic -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text, flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{PAGE}: {count} places for the table")
    PAGE.write_text(new)


main()
