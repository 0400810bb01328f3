#!/usr/bin/env bash
# Runs each scenario file in the simulator with two builds of the command, and compares what they
# print as JSON, byte for byte: `scripts/same-output.sh OLD NEW [FILE...]`. Without files, all of
# scenarios/. Names each file that differs; ends with an error if there is one.
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "write two builds of the command: scripts/same-output.sh OLD NEW [FILE...]" >&2
    exit 2
fi
old=$(realpath "$1") new=$(realpath "$2")
for build in "$old" "$new"; do
    [ -x "$build" ] || { echo "$build is no program; write a build of the command" >&2; exit 2; }
done
shift 2
root=$(realpath "$(dirname "$0")/..")
files=("$@")
[ $# -gt 0 ] || mapfile -t -d '' files < <(find "$root/scenarios" -name '*.toml' -print0 | sort -z)
for file in "${files[@]}"; do
    [ -r "$file" ] || { echo "$file cannot be read; write a scenario file" >&2; exit 2; }
done
# The exit code is a part of the output: 2 for a file that the simulator refuses. Standard error is
# not: its progress lines depend on the time.
of() {
    { "$1" run "$2" --json 2>/dev/null || echo "exit $?"; } | sha256sum
}
same=0 other=0
for file in "${files[@]}"; do
    if [ "$(of "$old" "$file")" = "$(of "$new" "$file")" ]; then
        same=$((same + 1))
    else
        other=$((other + 1))
        echo "$file differs"
    fi
done
echo "$same files with the same output, $other with another one"
[ "$other" = 0 ]
