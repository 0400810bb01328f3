#!/usr/bin/env bash
# Makes the pictures of the documentation: runs three figures and the comparison of README, and
# photographs their pages with Chromium.
set -euo pipefail
command -v chromium >/dev/null || { echo "chromium is not here: apt-get install chromium" >&2; exit 1; }
cd "$(dirname "$0")"
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
shot() { # PAGE PICTURE HEIGHT
    chromium --headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars \
        --user-data-dir="$pages/profile" --virtual-time-budget=6000 --window-size="1180,$3" \
        --screenshot="$PWD/$2" "file://$1" 2>/dev/null
}

cargo run --release --quiet -- compare --stack noq --report "$pages/report.html" >/dev/null 2>&1
shot "$pages/report.html" report.png 1660
for shot in fig4:1030 fig8:1440 coexist:1090; do
    figure=${shot%:*}
    # 1 says that a figure was not seen; the picture shows it all the same.
    cargo run --release --quiet -- figures "$figure" --out "$pages/$figure" || [ $? -eq 1 ]
    shot "$pages/$figure/figures.html" "$figure.png" "${shot#*:}"
done
