#!/usr/bin/env bash
# Builds the lab as WebAssembly, and JavaScript that calls it, into web/src/wasm. Needs cargo, and
# rustup or the target wasm32-unknown-unknown.
set -euo pipefail
cd "$(dirname "$0")/.."
wasm=wasm32-unknown-unknown
out="${CARGO_TARGET_DIR:-$PWD/../target/web}"
if command -v rustup >/dev/null; then rustup -q target add "$wasm" 2>/dev/null || rustup target add "$wasm"; fi
(cd lab && cargo build --release --locked --target "$wasm" --target-dir "$out")
(cd bindgen && cargo build --release --locked --target-dir "$out")
rm -rf src/wasm
"$out/release/fullpipe-web-bindgen" "$out/$wasm/release/fullpipe_web.wasm" src/wasm
