#!/usr/bin/env bash
# Measures the simulator beside csg-htsim (https://github.com/Broadcom/csg-htsim), whose source is
# in the directory that is named, and prints the tables of docs/costs.md: `scripts/htsim.sh
# path/to/csg-htsim`. Nothing is downloaded. htsim is built with -O3 in a temporary directory, with
# scripts/htsim.cpp in front of it. Both run the same experiment by turns, ROUNDS times (5).
#
# FULLPIPE names another build of the command. Needs g++, Python 3 and valgrind.
set -euo pipefail
if [ $# != 1 ] || [ ! -f "$1/sim/tcp.cpp" ]; then
    echo "write the directory with htsim's source: scripts/htsim.sh path/to/csg-htsim" >&2
    exit 2
fi
source=$(cd "$1/sim" && pwd)
fullpipe=${FULLPIPE:+$(realpath "$FULLPIPE")}
cd "$(dirname "$0")/.."
cargo build --release --locked -p fullpipe-sim --example beside
if [ -z "$fullpipe" ]; then
    cargo build --release --locked -p fullpipe
    fullpipe=target/release/fullpipe
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Its ACKs have 40 bytes, ours 52: TCP's timestamps.
cp "$source"/*.h "$dir"
sed -i 's/ACKSIZE=40/ACKSIZE=52/' "$dir/tcppacket.h"
objects=()
for part in config eth_pause_packet eventlist fairpullqueue logfile loggers mtcp ndppacket network \
    pipe queue rng route tcp tcppacket; do
    cp "$source/$part.cpp" "$dir"
    g++ -std=c++11 -O3 -w -I "$dir" -c "$dir/$part.cpp" -o "$dir/$part.o"
    objects+=("$dir/$part.o")
done
g++ -std=c++11 -O3 -I "$dir" scripts/htsim.cpp "${objects[@]}" -o "$dir/htsim"

python3 - "$dir" target/release/examples/beside "$fullpipe" "${ROUNDS:-5}" <<'PYTHON'
import os, re, statistics, subprocess, sys

dir, ours, fullpipe, rounds = *sys.argv[1:4], int(sys.argv[4])


def cost(command, stdin, keep=False):
    """CPU seconds, MiB, and the lines that a command prints."""
    out = open(f"{dir}/out", "w+") if keep else subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=open(stdin), stdout=out)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = status
    if status:
        sys.exit(f"{command} failed")
    lines = open(f"{dir}/out").read().split() if keep else []
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, [int(line) for line in lines]


def instructions(command, stdin):
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(valgrind, stdin=open(stdin), capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def described(experiment):
    file = f"{dir}/experiment"
    with open(file, "w") as out:
        subprocess.run([ours, "describe", *experiment], stdout=out, check=True)
    return file


def scenario(cc, flows, mbit, seconds):
    file = f"{dir}/{cc}-{flows}.toml"
    with open(file, "w") as out:
        out.write(f'''cc = "{cc}"
path = {{ rate = "{mbit}mbit", rtt = "40ms", buffer = "{340 * mbit // 100}pkts" }}
duration = "{seconds}s"
flow = [{{ count = {flows} }}]
''')
    return file


def measure(runs):
    """By name: CPU ns and instructions a packet, MiB, and the ratio to htsim in the same round."""
    seen = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (command, stdin, packets) in runs.items():
            cpu, memory, _ = cost(command, stdin)
            seen[name].append((cpu / packets * 1e9, memory))
    theirs = [each for each, _ in seen["htsim, reno"]]
    for name, all in seen.items():
        ns = [each for each, _ in all]
        ratio = statistics.median(a / b for a, b in zip(ns, theirs))
        yield name, statistics.median(ns), ratio, max(memory for _, memory in all)


def link(flows, mbit, seconds, ours_too, counted):
    stdin = described(["link", "reno", str(flows), str(mbit), str(seconds)])
    packets = cost([f"{dir}/htsim"], stdin, True)[2][0]
    runs = {"htsim, reno": ([f"{dir}/htsim"], stdin, packets)}
    for cc in ours_too:
        command = [ours, "run", "link", cc, str(flows), str(mbit), str(seconds)]
        packets = cost(command, stdin, True)[2][0]
        runs[f"simulator, {cc}"] = (command, stdin, packets)
        command = [fullpipe, "run", scenario(cc, flows, mbit, seconds)]
        runs[f"command, {cc}"] = (command, stdin, packets)
    each = {}
    for name in [name for name in runs if counted and not name.startswith("command")]:
        words = ["link", name.split()[-1], str(flows), str(mbit), str(counted)]
        file = described(words)
        command = [f"{dir}/htsim"] if name.startswith("htsim") else [ours, "run", *words]
        each[name] = f"{instructions(command, file) / cost(command, file, True)[2][0]:.0f}"
    described(["link", "reno", str(flows), str(mbit), str(seconds)])
    for name, ns, ratio, memory in measure(runs):
        row = (flows, name, f"{ns:.0f}", f"{ratio:.2f}", each.get(name, ""), f"{memory:.0f}")
        print("|", " | ".join(map(str, row)), "|", flush=True)


def fat_tree(seconds):
    words = ["fat-tree", str(seconds)]
    stdin = described(words)
    runs = {"htsim, reno": [f"{dir}/htsim"], "simulator, reno": [ours, "run", *words]}
    both = {name: cost(command, stdin, True)[2] for name, command in runs.items()}
    runs = {name: (command, stdin, both[name][0]) for name, command in runs.items()}
    differ = [abs(a / b - 1) for a, b in zip(both["simulator, reno"][1:], both["htsim, reno"][1:])]
    total = sum(both["simulator, reno"][1:]) / sum(both["htsim, reno"][1:]) - 1
    print(f"\nFat tree, k = 8, {len(differ)} flows, {seconds} s: rates differ by {100 * max(differ):.2f} % at most, "
          f"{100 * statistics.median(differ):.2f} % in the median, {100 * total:+.2f} % in all.")
    print("\n| in | ns of CPU a packet | by htsim's | MiB |\n|---|---|---|---|")
    for name, ns, ratio, memory in measure(runs):
        print("|", " | ".join((name, f"{ns:.0f}", f"{ratio:.2f}", f"{memory:.0f}")), "|", flush=True)


print(f"load of the machine at the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
print("| flows | in | ns of CPU a packet | by htsim's | instructions a packet | MiB |\n|---|---|---|---|---|---|")
link(1, 100, 300, ["reno", "cubic", "bbr3"], 10)
link(100, 1_000, 30, ["bbr3"], 1)
link(1000, 10_000, 5, ["cubic", "bbr3"], 1)
fat_tree(1)
print(f"\nload at the end: {os.getloadavg()[0]:.1f}")
PYTHON
