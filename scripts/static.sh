#!/usr/bin/env bash
# Builds the command as a static program for Linux, with manual pages, completions and licences in
# an archive:
#
#   scripts/static.sh                               # x86_64-unknown-linux-musl, into target/dist
#   scripts/static.sh aarch64-unknown-linux-musl DIR
#
# Needs rustup, and cargo-zigbuild with a C compiler for every target: pip install cargo-zigbuild,
# in a virtual environment that is active. RUN names a program that runs another machine's programs,
# as qemu-aarch64-static; with it the result is tried.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-x86_64-unknown-linux-musl}
out=$(realpath -m "${2:-$here/target/dist}")
run=${RUN:-}
cd "$here"

command -v cargo-zigbuild >/dev/null ||
    { echo "static.sh: cargo-zigbuild is not here (pip install cargo-zigbuild, in a virtual environment)" >&2; exit 1; }
rustup target add "$target" 2>/dev/null
# Nobody reads a static program's lines of the source.
export CARGO_PROFILE_RELEASE_DEBUG=0
cargo zigbuild --release --locked --package fullpipe --features full --target "$target"
built=${CARGO_TARGET_DIR:-target}/$target/release/fullpipe

version=$(cargo pkgid --package fullpipe | sed 's/.*[#@]//')
name=fullpipe-$version-$target
dir=$out/$name
rm -rf "$dir"
mkdir -p "$dir/completions"
cp "$built" README.md LICENSE-APACHE LICENSE-MIT crates/cli/CHANGELOG.md "$dir"
! readelf --program-headers "$dir/fullpipe" | grep -q INTERP || { echo "static.sh: it is not static" >&2; exit 1; }

# The pages and completions are the same for every machine: those of a command that runs here.
case "$target" in "$(uname -m)"-*) run=${run:-env} ;; esac
if [ -n "$run" ]; then
    own=("$run" "$dir/fullpipe")
    "${own[@]}" conformance >/dev/null
else
    own=(cargo run --release --locked --quiet --package fullpipe --)
fi
"${own[@]}" man "$dir/man"
for shell in bash zsh fish elvish powershell; do "${own[@]}" completions "$shell" >"$dir/completions/$shell"; done
tar --create --gzip --owner=0 --group=0 --directory "$out" --file "$out/$name.tar.gz" "$name"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$out/$name.tar.gz"
