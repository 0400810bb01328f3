#!/bin/sh
# A server that sends over 300 ms with 1 % of loss: does another congestion control help?
# The file has the question as an expectation, so that the exit code is the answer.
set -eu
cat >server.toml <<'TOML'
cc = ["cubic", "bbr1", "bbr3", "bbr3x"]
seed = [1, 2, 3, 4, 5]
duration = "30s"
path = { rate = "50mbit", rtt = "300ms", buffer = "1bdp", loss = "1%" }
expect = ["goodput_mbps[bbr3x] >= 10 * goodput_mbps[cubic]"]
TOML
fullpipe run server.toml
# Why CUBIC is slow there, told from the run itself.
fullpipe explain server.toml --run 0
