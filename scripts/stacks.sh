#!/usr/bin/env bash
# Measures bbr3 in the simulator, in noq, in quinn and in s2n-quic beside the stacks' own
# algorithms, on three paths, and prints the tables of docs/stacks.md. bbr3 runs with SEEDS seeds
# (1), the others with one. Needs a quiet machine, five minutes, two more for each further seed, and
# Python 3; no root. FULLPIPE names the command, which is built with --features full.
set -euo pipefail
fullpipe=${FULLPIPE:-$(dirname "$0")/../target/release/fullpipe}
seeds=${SEEDS:-1}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

paths=("--rate 100mbit --rtt 40ms --buffer 6bdp" "--rate 100mbit --rtt 40ms --buffer 1bdp --loss 1%"
    "--rate 50mbit --rtt 80ms --buffer 2bdp")
n=0
compare() {
    n=$((n + 1))
    "$fullpipe" compare "$@" --duration "${DURATION:-10s}" --json >"$dir/$(printf %04d "$n").json"
}
for path in "${paths[@]}"; do
    read -ra path <<<"$path"
    for stack in "sim virtual cubic" "noq real noq:bbr3,noq:cubic" "quinn real quinn:bbr,quinn:cubic" "s2n real s2n:bbr,s2n:cubic"; do
        read -r stack clock others <<<"$stack"
        for seed in $(seq "$seeds"); do
            compare --stack "$stack" --clock "$clock" --cc bbr3 "${path[@]}" --seed "$seed"
        done
        compare --stack "$stack" --clock "$clock" --cc "$others" "${path[@]}"
    done
done

python3 - "$dir"/*.json <<'PYTHON'
import json, statistics, sys

names = {"sim": "simulator", "noq": "noq", "quinn": "quinn", "s2n": "s2n-quic"}
FIGURES = ["goodput_mbps", "rtt_ms.p50", "queue_ms.p95"]
rows = {}
for file in sys.argv[1:]:
    result = json.load(open(file))["scenarios"][0]
    for run in result["runs"]:
        row = rows.setdefault((result["scenario"], run["flows"][0]["cc"], names[run["stack"]]), [])
        late = not (run.get("emulator") or {}).get("trusted", True)
        row.append(([run["metrics"][figure] for figure in FIGURES], late))


def means(row):
    return [statistics.mean(values) for values in zip(*(figures for figures, _ in row))]


def spread(values):
    return f" ({min(values):.1f}–{max(values):.1f})" if len(values) > 1 else ""


def cell(row):
    goodput, rtt, queue = means(row)
    goodputs, _, queues = zip(*(figures for figures, _ in row))
    mark = " (!)" if any(late for _, late in row) else ""
    return f"{goodput:.2f}{spread(goodputs)}, {rtt:.1f}, {queue:.1f}{spread(queues)}{mark}"


paths = list(dict.fromkeys(path for path, _, _ in rows))
print(f"| algorithm | in | {' | '.join(paths)} |")
print("|---|---" + "|---" * len(paths) + "|")
for cc, where in dict.fromkeys((cc, where) for _, cc, where in rows):
    print(f"| {cc} | {where} | {' | '.join(cell(rows[path, cc, where]) for path in paths)} |")

print("\n| path | goodput of bbr3, largest mean by smallest | median RTT, largest by smallest |")
print("|---|---|---|")
for path in paths:
    goodput, rtt, _ = zip(*(means(row) for (p, cc, _), row in rows.items() if (p, cc) == (path, "bbr3")))
    print(f"| {path} | {max(goodput) / min(goodput):.3f} | {max(rtt) / min(rtt):.2f} |")
PYTHON
