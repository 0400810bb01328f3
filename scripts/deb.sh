#!/usr/bin/env bash
# Builds the Debian package fullpipe-bbr3 for this machine's architecture: scripts/deb.sh [DIR], by
# default target/debian. Prints the path of the package. What it lacks on Debian:
#
#   apt-get install clang-19 libelf-dev zlib1g-dev pkg-config dpkg-dev
#   cargo install --locked cargo-deb
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$here/target/debian}")
mkdir -p "$out"
cd "$here"
command -v cargo-deb >/dev/null || { echo "deb.sh: cargo-deb is not here (cargo install --locked cargo-deb)" >&2; exit 1; }
cargo deb --quiet --package fullpipe-bpf --locked --strip --output "$out/fullpipe-bbr3.deb" >/dev/null
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs "$out/fullpipe-bbr3.deb"
else
    echo "deb.sh: not checked by lintian, which is not here" >&2
fi
echo "$out/fullpipe-bbr3.deb"
