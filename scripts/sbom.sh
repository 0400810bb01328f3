#!/usr/bin/env bash
# Writes what a program is made of, as CycloneDX in JSON: its own crates and all that it is linked
# with, with versions, licences and checksums.
#
#   scripts/sbom.sh CRATE FEATURES TARGET FILE
#   scripts/sbom.sh cli full x86_64-unknown-linux-musl target/dist/fullpipe.cdx.json
#
# CRATE is a directory of crates/. Installs cargo-cyclonedx if it is not there.
set -euo pipefail
[ $# = 4 ] || { echo "sbom.sh: write sbom.sh CRATE FEATURES TARGET FILE" >&2; exit 2; }
file=$(realpath -m "$4")
cd "$(dirname "$0")/.."

has() { cargo cyclonedx --version >/dev/null 2>&1; }
has || cargo install --quiet --locked cargo-cyclonedx
# It writes a file beside the manifest of each crate of the workspace.
trap 'rm -f crates/*/sbom.json' EXIT
cargo cyclonedx --quiet --manifest-path "crates/$1/Cargo.toml" --features "$2" --target "$3" \
    --format json --override-filename sbom
mkdir -p "$(dirname "$file")"
mv "crates/$1/sbom.json" "$file"
