#!/usr/bin/env bash
# Builds the RPM package fullpipe-bbr3 for this machine's architecture: scripts/rpm.sh [DIR], by
# default target/rpm. Prints the path of the package. It needs clang, libelf and zlib with headers,
# and of cargo:
#
#   cargo install --locked cargo-generate-rpm
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$here/target/rpm}")
target=$(realpath -m "${CARGO_TARGET_DIR:-$here/target}")
mkdir -p "$out"
cd "$here"
command -v cargo-generate-rpm >/dev/null ||
    { echo "rpm.sh: cargo-generate-rpm is not here (cargo install --locked cargo-generate-rpm)" >&2; exit 1; }
cargo build --quiet --release --locked -p fullpipe-bpf --features loader
# A place with the stripped program instead of the one that was built.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/release"
strip -o "$stage/release/fullpipe-bbr3" "$target/release/fullpipe-bbr3"
cargo generate-rpm -p crates/bpf --target-dir "$stage" --output "$out/fullpipe-bbr3.rpm"
echo "$out/fullpipe-bbr3.rpm"
