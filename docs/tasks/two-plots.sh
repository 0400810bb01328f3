#!/bin/sh
# Course work: BBRv3 beside CUBIC in a deep buffer, a table for the text and two plots for the page.
set -eu
cat >course.toml <<'TOML'
cc = ["bbr3", "cubic"]
duration = "20s"
path = { rate = "50mbit", rtt = "40ms", buffer = "4bdp" }
TOML
# The table, each plot as SVG in black on white, and the values for a program that draws otherwise.
fullpipe run course.toml --svg plots --series-csv course.csv
ls plots
