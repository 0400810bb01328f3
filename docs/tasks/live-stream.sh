#!/bin/sh
# A stream of 4 Mbit/s over 20 Mbit/s, beside a download of its own host: what does the stream get?
set -eu
cat >stream.toml <<'TOML'
duration = "30s"
path = { rate = "20mbit", rtt = "60ms", buffer = "2bdp" }
[[flow]]
name = "stream"
cc = "bbr3"
app = { rate_limited = { rate = "4mbit" } }
[[flow]]
name = "download"
cc = "cubic"
start = "5s"
TOML
fullpipe run stream.toml --report stream.html    # a row for each flow, and a page with both over time
# What happened to the stream: the first flow.
fullpipe explain stream.toml --flow 0
