#!/usr/bin/env bash
# Measures bbr3 in the simulator, in noq, in quinn and in s2n-quic beside the stacks' own algorithms, on three paths, and prints the
# table of docs/stacks.md. Needs a quiet machine, six minutes, and Python 3; no root. FULLPIPE names the command.
set -euo pipefail
fullpipe=${FULLPIPE:-$(dirname "$0")/../target/release/fullpipe}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

paths=("--rate 100mbit --rtt 40ms --buffer 6bdp" "--rate 100mbit --rtt 40ms --buffer 1bdp --loss 1%"
    "--rate 50mbit --rtt 80ms --buffer 2bdp")
n=0
for path in "${paths[@]}"; do
    for stack in "sim bbr3,cubic" "quic bbr3,noq:bbr3,noq:cubic" "quic:quinn bbr3,quinn:bbr,quinn:cubic" \
        "quic:s2n bbr3,s2n:bbr,s2n:cubic"; do
        read -r backend algorithms <<<"$stack"
        n=$((n + 1))
        # shellcheck disable=SC2086
        "$fullpipe" compare --backend "$backend" --cc "$algorithms" $path --duration "${DURATION:-10s}" --json \
            >"$dir/$(printf %02d "$n").json"
    done
done

python3 - "$dir"/*.json <<'PYTHON'
import json, sys

names = {"sim": "simulator", "quic": "noq", "quic:quinn": "quinn", "quic:s2n": "s2n-quic"}
print("| path | algorithm | in | goodput | RTT p50 | queue p95 |")
print("|---|---|---|---|---|---|")
for file in sys.argv[1:]:
    result = json.load(open(file))["scenarios"][0]
    scenario = result["scenario"]
    for run in result["runs"]:
        cc, metrics = run["flows"][0]["cc"], run["metrics"]
        goodput, rtt = metrics["goodput_mbps"], metrics["rtt_ms.p50"]
        emulator = run.get("emulator") or {}
        mark = "" if emulator.get("trusted", True) else " (!)"
        queue, where = metrics["queue_ms.p95"], names[run["backend"]]
        print(f"| {scenario} | {cc}{mark} | {where} | {goodput:.2f} | {rtt:.1f} | {queue:.1f} |")
PYTHON
