#!/usr/bin/env bash
# Builds the Debian package fullpipe-bbr3 for arm64 on another machine: scripts/arm64.sh [DIR], by default
# target/debian. Prints the path of the package. What it lacks on Debian:
#
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install clang-19 make pkg-config dpkg-dev gcc-aarch64-linux-gnu libelf-dev:arm64 zlib1g-dev:arm64
#   cargo install --locked cargo-deb
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$here/target/debian}")
target=aarch64-unknown-linux-gnu
mkdir -p "$out"
cd "$here"
for program in aarch64-linux-gnu-gcc cargo-deb; do
    command -v "$program" >/dev/null || { echo "arm64.sh: $program is not here; see the head of this script" >&2; exit 1; }
done
rustup --quiet target add "$target"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_PATH=/usr/lib/aarch64-linux-gnu/pkgconfig
cargo deb --quiet --package fullpipe-bpf --locked --strip --target "$target" --output "$out/fullpipe-bbr3_arm64.deb" >/dev/null
echo "$out/fullpipe-bbr3_arm64.deb"
