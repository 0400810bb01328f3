#!/usr/bin/env bash
# The bytes of a controller with each algorithm alone, as docs/costs.md has them. In a package of its
# own, because the core's tests and examples are built with every feature.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
cat >"$dir/src/main.rs" <<'RUST'
use fullpipe_cc::{Controller, PacketState};

fn main() {
    println!("{} (a packet: {})", size_of::<Controller>(), size_of::<PacketState>());
}
RUST
for features in default "" bbr3x bbr3 bbr3-linux bbr1 cubic reno bbr-swift prague bbr3,l4s bbr3,careful-resume; do
    cat >"$dir/Cargo.toml" <<TOML
[package]
name = "controller-size"
edition = "2024"
[dependencies]
fullpipe-cc = { path = "$root/crates/cc", default-features = false, features = ["${features//,/\",\"}"] }
[workspace]
TOML
    [ -n "$features" ] || sed -i 's/, features = .*/ }/' "$dir/Cargo.toml"
    printf '%s: ' "${features:-none but a fixed rate}"
    cargo run --quiet --release --manifest-path "$dir/Cargo.toml" --target-dir "$dir/target"
done
