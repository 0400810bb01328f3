"""The cost of a cluster: the same sweep on one machine and on Ray with 1, 2 and 4 workers.

    python tests/scaling.py [RUNS]

`cost` is the part of the workers' time in which they did not simulate: 1 - simulated / (workers x time), from the first
batch's start to the last one's end. With more workers than cores the cores are shared, and it says nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

import fullpipe
import ray
from fullpipe import cluster
from ray.cluster_utils import Cluster
from test_cluster import grid


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"{runs} runs, {os.cpu_count()} cores\n\n| where | s | runs/s | simulated s | tables s | cost |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for jobs in (1, 2):
            begun = time.perf_counter()
            fullpipe.sweep(grid(runs), f"{directory}/one{jobs}", jobs=jobs, progress=False)
            took = time.perf_counter() - begun
            print(f"| one machine, {jobs} threads | {took:.1f} | {runs / took:.0f} | | | |", flush=True)
        for workers in (1, 2, 4):
            made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
            for _ in range(workers):
                made.add_node(num_cpus=1)
            made.wait_for_nodes()
            ray.init(address=made.address, log_to_driver=False)
            out = f"{directory}/ray{workers}"
            begun = time.perf_counter()
            fullpipe.sweep(grid(runs), out, on="ray", progress=False)
            took = time.perf_counter() - begun
            done = cluster.journal(out)
            simulated, written = sum(entry.seconds for entry in done), sum(entry.written for entry in done)
            window = max(entry.ended for entry in done) - min(entry.ended - entry.seconds - entry.written for entry in done)
            cost = f"{100 * (1 - simulated / (workers * window)):.1f} %" if workers <= (os.cpu_count() or 1) else "-"
            print(
                f"| Ray, {workers} workers, {len(done)} batches | {took:.1f} | {runs / took:.0f} | {simulated:.1f} | {written:.1f} | {cost} |",
                flush=True,
            )
            ray.shutdown()
            made.shutdown()


main()
