#!/usr/bin/env bash
# Runs formatting, lints and every test. Needs Rust (rustup) and, for the interoperability tests, Python 3.9 or
# later; installs aioquic from PyPI into .venv here.
#
# ./test.sh --long runs what takes longer or needs more: the kernel program (clang-19; as root it is loaded), the page
# of the figures in Chromium, TCP on a board (QEMU), the Python package (Python 3.10), the page that runs the lab (npm), the packages of the crates, the oldest Rust they need, more cases of the tests that generate theirs, and a soak of the server, of SOAK=1h if it
# is asked for. cargo-deny checks the dependencies and mdbook builds the documentation, where they are installed; DEB_IN_QEMU=1
# installs the Debian package in a virtual machine. As root on Debian it installs what it needs with apt-get.
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
    "") long= ;;
    --long) long=1 ;;
    *) echo "test.sh: '$1' is no option; write ./test.sh or ./test.sh --long" >&2; exit 2 ;;
esac

say() { printf '\n== %s\n' "$*"; }
die() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

command -v cargo >/dev/null || die "cargo is not here: install Rust from https://rustup.rs"

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Another installation may be under way.
apt_install() {
    local wait=(-o DPkg::Lock::Timeout=300)
    apt-get "${wait[@]}" update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get "${wait[@]}" install -y -qq "$@" >/dev/null
}

# Not `command -v`, which would find the function itself.
chromium() { type -P chromium || type -P chromium-browser || type -P google-chrome; }

# The poll loop of crates/tcp/board, for a Cortex-M4.
bare=thumbv7em-none-eabi
board="$PWD/target/board"
build_board() {
    cargo build --release --locked --manifest-path crates/tcp/board/Cargo.toml --target "$bare" --target-dir "$board"
}

# The crates that may be published, each with its rust-version.
published() {
    cargo metadata --no-deps --locked --format-version 1 | python3 -c 'import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None:
        print(package["name"], package["rust_version"])'
}

# The wheel, and its tests in a virtual environment below target. What the tests are held against is the command.
python_package() {
    local python="$PWD/target/python" version='import sys; sys.exit(sys.version_info < (3, 10))'
    if ! python3 -c "$version" 2>/dev/null; then
        echo "not run: it needs Python 3.10 or later"
        return
    fi
    if ! python3 -m venv "$python/venv" 2>/dev/null && can_install; then
        apt_install python3-venv
        python3 -m venv "$python/venv"
    fi
    local pip=("$python/venv/bin/python" -m pip --disable-pip-version-check install --quiet)
    if ! "${pip[@]}" -r python/tests/requirements.txt; then
        echo "not run: the packages of python/tests/requirements.txt could not be installed"
        return
    fi
    "${pip[@]}" ray || echo "not run: the tests on a cluster (pip install ray)"
    cargo build --workspace --release --locked --examples --bins
    rm -rf "$python/wheels"
    (cd python && cargo clippy --release --locked --target-dir ../target -- -D warnings &&
        "$python/venv/bin/maturin" build --release --locked --target-dir ../target --out "$python/wheels")
    local wheel=("$python"/wheels/*.whl)
    "${pip[@]}" --force-reinstall --no-deps "${wheel[0]}"
    local built
    built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
    # From here, so that the installed package is tested and not the folder of its source.
    FULLPIPE_COMMAND="$built/release/fullpipe" FULLPIPE_WHEEL="${wheel[0]}" "$python/venv/bin/python" -m pytest python/tests --durations=5
}

# The page that runs the lab in a browser. What its tests are held against is the command.
lab_page() {
    # What vite asks for.
    local version='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a == 22 && b >= 12) || (a == 20 && b >= 19) ? 0 : 1)'
    if ! command -v npm >/dev/null && can_install; then
        apt_install nodejs npm || true
    fi
    if ! command -v npm >/dev/null || ! node -e "$version"; then
        echo "not run: it needs npm, and Node 20.19 or 22.12 or later"
    elif ! chromium >/dev/null; then
        echo "not run: there is no Chromium here (apt-get install chromium)"
    elif ! command -v rustup >/dev/null || ! rustup target add wasm32-unknown-unknown; then
        echo "not run: it needs rustup, for the target wasm32-unknown-unknown"
    elif ! (cd web && npm ci --no-audit --no-fund); then
        echo "not run: the packages of web/package-lock.json could not be installed"
    else
        local built
        built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
        cargo build --workspace --release --locked --examples --bins
        (cd web/lab && cargo clippy --release --locked --target wasm32-unknown-unknown --target-dir "$built/web" -- -D warnings)
        (cd web && CARGO_TARGET_DIR="$built/web" npm run build && FULLPIPE="$built/release/fullpipe" npm test)
    fi
}

run_long() {
    say "the page of the figures in a browser"
    if ! chromium >/dev/null && can_install; then
        apt_install chromium || true
    fi
    if chromium >/dev/null; then
        cargo test --workspace --release --locked --test browser -- --nocapture
    else
        echo "not run: there is no Chromium here (apt-get install chromium)"
    fi

    say "TCP on a board, under QEMU"
    if ! command -v qemu-system-arm >/dev/null && can_install; then
        apt_install qemu-system-arm || true
    fi
    if command -v qemu-system-arm >/dev/null && command -v rustup >/dev/null && rustup target add "$bare"; then
        (cd crates/tcp/board && cargo run --release --locked --target-dir "$board")
    else
        echo "not run: it needs qemu-system-arm (apt-get install qemu-system-arm) and rustup"
    fi

    say "iperf3 and nginx at the other end"
    if ! command -v iperf3 >/dev/null && can_install; then
        apt_install iperf3 || true
    fi
    # nginx is not installed here: its package starts a server on port 80.
    cargo test --workspace --release --locked --test kernel_programs --test programs -- --nocapture

    say "the Python package, and a Ray cluster on this machine"
    python_package

    say "the page that runs the lab in a browser"
    lab_page

    say "more generated cases"
    PROPTEST_CASES=1000 cargo test --workspace --release --locked --test properties
    PROPTEST_CASES=10000 cargo test --workspace --release --locked --test twin
    PROPTEST_CASES=1000 cargo test --workspace --release --locked --lib invariants -- --nocapture
    PROPTEST_CASES=10000 cargo test --workspace --release --locked --test hostile -- --nocapture
    FUZZ_EVENTS=1000000 cargo test --workspace --release --locked --test fuzz -- --nocapture
    FUZZ_DATAGRAMS=1000000 cargo test --workspace --release --locked --lib hostile -- --nocapture --test-threads=1
    STRANGERS=1000000 cargo test --workspace --release --locked --test strangers -- --nocapture --test-threads=1
    JUDGE_SEEDS=20 cargo test --workspace --release --locked --test verdicts --test judge -- --nocapture

    # Each crate that may be published is built from its package alone, as from the registry.
    say "packages"
    local crate version packages=()
    while read -r crate version; do
        packages+=(-p "$crate")
    done < <(published)
    # Cargo takes a crate of one version for the same for ever: what an earlier run extracted and built would be
    # used in place of today's.
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/fullpipe-* "${CARGO_TARGET_DIR:-target}"/debug/.fingerprint/fullpipe-*
    cargo package --allow-dirty --locked "${packages[@]}"

    say "the oldest Rust that each of them needs"
    while read -r crate version; do
        if command -v rustup >/dev/null && rustup toolchain install "$version" --profile minimal --no-self-update; then
            cargo "+$version" check --locked --target-dir target/msrv -p "$crate"
        else
            echo "not checked: $crate with Rust $version (rustup could not install it)"
        fi
    done < <(published)

    # In real time and for minutes: each runs when its variable is set.
    say "tests that run when they are asked for"
    on_demand() {
        if [ -n "${!1:-}" ]; then
            cargo test --workspace --release --locked --test "$2" -- --nocapture
        else
            echo "not run: $3 ($1=$4 ./test.sh --long)"
        fi
    }
    if [ -n "${BULK_HTTP3:-}" ]; then
        cargo build --workspace --release --locked
        # What cannot be installed is skipped, and said so.
        "${CARGO_TARGET_DIR:-target}/release/fullpipe" peers install quic-go aioquic || true
    fi
    on_demand INTEROP_ALL interop "the 22 cases of the interop runner between our own ends" 1
    on_demand LONG endurance "5 GB and 40,000 files" 1
    on_demand BULK_HTTP3 bulk_http3 "HTTP/3 in bulk with other people's clients" 1
    on_demand SOAK soak "the server among clients of every kind" 1h

    # DENY=1 installs it, which takes some minutes. The advisories come from a repository of RustSec's on GitHub.
    say "licences, sources and advisories of the dependencies"
    if ! command -v cargo-deny >/dev/null && [ -n "${DENY:-}" ]; then
        cargo install --locked --quiet cargo-deny
    fi
    if command -v cargo-deny >/dev/null; then
        local advisories=(advisories) manifest
        cargo deny fetch db || { advisories=(); echo "not checked: advisories (their database cannot be fetched)"; }
        for manifest in Cargo.toml python/Cargo.toml web/lab/Cargo.toml web/bindgen/Cargo.toml; do
            cargo deny --manifest-path "$manifest" --config "$PWD/deny.toml" --all-features \
                check --hide-inclusion-graph --allow duplicate "${advisories[@]}" licenses bans sources
        done
    else
        echo "not run: there is no cargo-deny (DENY=1 ./test.sh --long installs it)"
    fi

    say "the documentation site, with every link in it"
    if command -v mdbook >/dev/null; then
        scripts/site.sh target/site
    else
        echo "not built: there is no mdbook (cargo install --locked mdbook)"
    fi

    # BBRv3 as BPF: a feature of its own, because it needs clang and libelf to be built.
    say "the kernel program"
    # Whether what crates/bpf/build.rs takes is new enough.
    new_clang() {
        local clang
        clang=$(type -P ${CLANG:-clang-19 clang-20 clang-18 clang-17 clang} | head -n 1)
        [ -n "$clang" ] && [ "$("$clang" -dumpversion | cut -d. -f1)" -ge 17 ]
    }
    can_build_kernel() {
        new_clang && command -v make >/dev/null && command -v pkg-config >/dev/null &&
            [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]
    }
    if [ "$(uname)" != Linux ]; then
        echo "not built: it is for Linux"
    else
        if ! can_build_kernel && can_install; then
            apt_install clang-19 libelf-dev zlib1g-dev make pkg-config || true
        fi
        if can_build_kernel; then
            # The whole workspace is named, so that the dependencies are those that are built already.
            local kernel=(--workspace --features "fullpipe/kernel,fullpipe-bpf/loader" --release --locked)
            cargo clippy "${kernel[@]}" --all-targets -- -D warnings
            # Without root the tests that load it say so.
            cargo test "${kernel[@]}" --test kernel --test ecn --test package --test over_tcp -- --nocapture

            say "the package fullpipe-bbr3"
            if [ -z "${DEB_IN_QEMU:-}" ]; then
                echo "not run: installing it in a virtual machine, about ten minutes (DEB_IN_QEMU=1 ./test.sh --long)"
            elif [ "$(id -u)" = 0 ] && can_install; then
                apt_install mmdebstrap qemu-system-x86 e2fsprogs lintian dpkg-dev || true
                command -v cargo-deb >/dev/null || cargo install --locked --quiet cargo-deb
                scripts/deb-in-qemu.sh
            else
                echo "not run: it needs root on Debian"
            fi
        else
            echo "not built: it needs clang-19, libelf-dev, zlib1g-dev, make and pkg-config (as root, this script installs them)"
        fi
    fi
}

if [ -n "$long" ]; then
    run_long
    exit
fi

# A second QUIC implementation to talk to.
venv=.venv
requirements=crates/cli/tests/aioquic/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
    say "aioquic into $venv"
    command -v python3 >/dev/null || die "python3 is not here: install it for the aioquic tests"
    if ! python3 -m venv "$venv" 2>/dev/null; then
        # Debian keeps the venv module in a package of its own.
        can_install ||
            die "python3 cannot make a venv: install your system's python3-venv"
        apt_install python3-venv
        python3 -m venv "$venv"
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$venv/installed.txt"
fi
FULLPIPE_PYTHON="$PWD/$venv/bin/python"
export FULLPIPE_PYTHON

say "formatting"
cargo fmt --all --check
cargo fmt --manifest-path crates/tcp/board/Cargo.toml --check
for manifest in python/Cargo.toml web/lab/Cargo.toml web/bindgen/Cargo.toml; do
    cargo fmt --manifest-path "$manifest" --check
    # A dependency of the lab that is new belongs into its lock file too.
    cargo metadata --manifest-path "$manifest" --locked --format-version 1 >/dev/null
done

say "lints"
cargo clippy --workspace --all-targets --release --locked -- -D warnings
# As the page in the browser has it.
cargo clippy --release --locked -p fullpipe-lab --no-default-features --lib -- -D warnings

say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --release --locked --quiet

say "the core with each of its features, and without a standard library"
for features in "" bbr3 bbr3x bbr3-linux bbr3x-linux bbr1 cubic reno custom,serde,defmt; do
    cargo clippy --release --locked -p fullpipe-cc --no-default-features --features "$features" -- -D warnings
done
if command -v rustup >/dev/null && rustup target add "$bare"; then
    cargo build --release --locked -p fullpipe-cc --features serde,defmt --target "$bare"
    cargo build --release --locked -p fullpipe-tcp --features interface --target "$bare"
    build_board
else
    # In a no_std crate that names neither std nor alloc, whatever needs them did not build above.
    echo "no $bare here (rustup could not add it): checking that the crate asks for no library"
    grep -q '^#!\[no_std\]' crates/cc/src/lib.rs || die "fullpipe-cc is not no_std"
    awk '/extern crate/ && before !~ /cfg\(test\)/ { print FILENAME ": " $0; found = 1 }
         { before = $0 } END { exit found }' crates/cc/src/*.rs crates/cc/src/*/*.rs ||
        die "fullpipe-cc asks for a library outside its tests"
fi

say "tests"
cargo test --workspace --release --locked

# The crates under everything once more with the assertions and overflow checks that the release profile
# leaves out. Only they are built again, not what they depend on.
say "tests of the core with debug assertions"
checked=()
for crate in fullpipe-cc fullpipe-path fullpipe-sim fullpipe-tcp; do
    for check in debug-assertions overflow-checks; do
        checked+=(--config "profile.release.package.$crate.$check=true")
    done
done
cargo test --release --locked "${checked[@]}" -p fullpipe-cc -p fullpipe-path -p fullpipe-sim -p fullpipe-tcp
