#!/usr/bin/env bash
# Sets up what the tests need, then runs formatting, lints and every test. Needs Rust (rustup) and,
# for the interoperability tests, Python 3.9 or later; installs aioquic from PyPI into .venv here.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n== %s\n' "$*"; }
die() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

command -v cargo >/dev/null || die "cargo is not here: install Rust from https://rustup.rs"

# A second QUIC implementation to talk to.
venv=.venv
requirements=crates/cli/tests/aioquic/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
    say "aioquic into $venv"
    command -v python3 >/dev/null || die "python3 is not here: install it for the aioquic tests"
    if ! python3 -m venv "$venv" 2>/dev/null; then
        # Debian keeps the venv module in a package of its own.
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
            die "python3 cannot make a venv: install your system's python3-venv"
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv "$venv"
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$venv/installed.txt"
fi
FULLPIPE_PYTHON="$PWD/$venv/bin/python"
export FULLPIPE_PYTHON

say "formatting"
cargo fmt --all --check

say "lints"
cargo clippy --workspace --all-targets --release --locked -- -D warnings

say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --release --locked --quiet

say "the core without a standard library"
bare=thumbv7em-none-eabi
cargo build --release --locked -p fullpipe-cc --no-default-features
if command -v rustup >/dev/null && rustup target add "$bare"; then
    cargo build --release --locked -p fullpipe-cc --no-default-features --target "$bare"
else
    # In a no_std crate that names neither std nor alloc, whatever needs them did not build above.
    echo "no $bare here (rustup could not add it): checking that the crate asks for no library"
    grep -q '^#!\[no_std\]' crates/cc/src/lib.rs || die "fullpipe-cc is not no_std"
    awk '/extern crate/ && before !~ /cfg\(test\)/ { print FILENAME ": " $0; found = 1 }
         { before = $0 } END { exit found }' crates/cc/src/*.rs crates/cc/src/*/*.rs ||
        die "fullpipe-cc asks for a library outside its tests"
fi

if ! { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null; then
    say "no Chromium here: no browser looks at the page of the figures (apt-get install chromium)"
fi
say "tests"
cargo test --workspace --release --locked

# The crates under everything once more with the assertions and overflow checks that the release profile
# leaves out. Only they are built again, not what they depend on.
say "tests of the core with debug assertions"
checked=()
for crate in fullpipe-cc fullpipe-path fullpipe-sim; do
    for check in debug-assertions overflow-checks; do
        checked+=(--config "profile.release.package.$crate.$check=true")
    done
done
cargo test --release --locked "${checked[@]}" -p fullpipe-cc -p fullpipe-path -p fullpipe-sim

# BBRv3 as BPF: a feature of its own, because it needs clang and libelf to be built.
say "the kernel program"
can_build_kernel() {
    { command -v clang-19 || command -v clang; } >/dev/null && command -v pkg-config >/dev/null &&
        [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]
}
if [ "$(uname)" != Linux ]; then
    echo "not built: it is for Linux"
else
    if ! can_build_kernel && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq &&
            apt-get install -y -qq clang-19 libbpf-dev libelf-dev zlib1g-dev pkg-config >/dev/null || true
    fi
    if can_build_kernel; then
        cargo clippy -p fullpipe-bpf -p fullpipe --features kernel --all-targets --release --locked -- -D warnings
        # Without root the tests that load it say so.
        cargo test --release --locked -p fullpipe-bpf -p fullpipe --features kernel \
            --test kernel --test ecn --test over_tcp -- --nocapture
    else
        echo "not built: it needs clang-19, libelf-dev, zlib1g-dev and pkg-config (as root, this script installs them)"
    fi
fi

if command -v cargo-deny >/dev/null; then
    say "licences and sources of the dependencies"
    cargo deny --offline check licenses bans sources
else
    say "cargo-deny is not installed: licences and advisories (deny.toml) were not checked"
fi
