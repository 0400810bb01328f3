#!/bin/sh
# Course work: BBRv3 beside CUBIC in a deep buffer, a table for the text and two plots for the page.
set -eu
cat >course.toml <<'TOML'
cc = ["bbr3", "cubic"]
duration = "20s"
path = { rate = "50mbit", rtt = "40ms", buffer = "4bdp" }
TOML
fullpipe run course.toml --out course        # the table; its results stay in the folder course
fullpipe report course --svg plots           # each plot as SVG, in black on white
ls plots
