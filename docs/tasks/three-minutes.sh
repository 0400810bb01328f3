#!/bin/sh
# README's tour: what happened to one flow, and why; a comparison; an experiment that is checked.
set -eu
fullpipe explain --rate 50mbit --rtt 80ms --buffer 4bdp
fullpipe compare --stack sim --rate 50mbit --rtt 80ms --buffer 2bdp --loss 0.1% --duration 10s --json >compare.json
cat >experiment.toml <<'TOML'
cc = ["bbr3", "cubic"]
duration = "20s"
path = { rate = "100mbit", rtt = "40ms", buffer = "6bdp" }
expect = [
    "goodput_mbps[bbr3] >= 0.95 * goodput_mbps[cubic]",
    "queue_ms.p50[bbr3] <= 5",
]
TOML
fullpipe run experiment.toml --junit experiment.xml
