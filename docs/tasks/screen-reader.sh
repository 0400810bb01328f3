#!/bin/sh
# The report with a screen reader, by keyboard and on a phone: which algorithm was faster, and were
# the expectations met? Run it as sh CHECKOUT/docs/tasks/screen-reader.sh in an empty directory. It
# needs Chromium, and in CHECKOUT/web npm ci.
set -eu
checkout=$(cd "$(dirname "$0")/../.." && pwd)
cat >experiment.toml <<'TOML'
cc = ["bbr3", "cubic"]
duration = "20s"
path = { rate = "100mbit", rtt = "40ms", buffer = "6bdp" }
expect = [
    "goodput_mbps[bbr3] >= 0.95 * goodput_mbps[cubic]",
    "queue_ms.p50[bbr3] <= 5",
]
TOML
fullpipe run experiment.toml --report report.html
# Reads the report's accessibility tree, and goes through it with Tab in a window of 420 px.
if command -v node >/dev/null; then
    node "$checkout/web/scripts/read-report.mjs" report.html
else
    echo "skipped: there is no Node (apt-get install nodejs)"
fi
