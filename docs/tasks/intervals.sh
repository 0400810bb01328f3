#!/bin/sh
# 500 runs with confidence intervals: 10 rates, 5 losses, 10 seeds.
set -eu
cat >grid.toml <<'TOML'
cc = "bbr3"
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
duration = "2s"
path = { rate = ["1mbit", "2mbit", "3mbit", "4mbit", "5mbit", "6mbit", "7mbit", "8mbit", "9mbit", "10mbit"], rtt = "40ms", loss = ["0%", "0.5%", "1%", "2%", "5%"] }
TOML
fullpipe sweep grid.toml --out grid --csv >grid.csv
wc -l grid.csv
# Mean and 95 % interval over the seeds of each point, as a page.
fullpipe report grid --report grid.html
