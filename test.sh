#!/usr/bin/env bash
# Formatting, lints and tests, in lanes:
#
#   ./test.sh fast     # formatting, lints, and every test that needs no clock, no port and no rights
#   ./test.sh          # formatting, these tests, the examples in the documentation, and a test in real time of
#                      # each feature
#   ./test.sh features # lints of the crates' features one at a time, and of the smaller workspaces
#   ./test.sh release  # the packages of the published crates, each with the oldest Rust that it needs, and the core
#                      # without an operating system
#   ./test.sh --long   # what takes longer or needs more, beside ./test.sh: all tests in real time, other
#                      # programs and stacks, the kernel program, more generated cases, the Python package, the
#                      # page in the browser, TCP on a board, packages, the oldest Rust
#
# Needs Rust (rustup) and a C compiler. cargo-nextest is installed with cargo if it is not there: a
# minute. As root on Debian, what else is needed is installed with apt-get; elsewhere the tests that
# need it are skipped, counted and named at the end. FULLPIPE_REQUIRE=root,tun,iperf3 turns skips
# for these reasons into failures.
#
# Some parts of --long run when a variable asks for them: INTEROP_ALL=1, LONG=1, BULK_HTTP3=1,
# SOAK=1h, MUTANTS=1, FULLPIPE_BESIDE_LINUX=5, BARE=1, DENY=1, DEB_IN_QEMU=1, RPM=1. What is not run is said.
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
    "" | fast | features | release | --long) lane=${1:-all} ;;
    *)
        echo "test.sh: '$1' is no option; write ./test.sh, and fast, features, release or --long behind it" >&2
        exit 2
        ;;
esac

say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }
die() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

command -v cargo >/dev/null || die "cargo is not here: install Rust from https://rustup.rs"
command -v cc >/dev/null || die "there is no C compiler here: install one (Debian: apt-get install gcc libc6-dev)"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
release=(--release --locked)

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# Installs packages if it may; another installation may be under way. What cannot be installed is
# found missing by whoever needs it.
apt_install() {
    local wait=(-o DPkg::Lock::Timeout=300)
    can_install || return 0
    apt-get "${wait[@]}" update -qq || true
    DEBIAN_FRONTEND=noninteractive apt-get "${wait[@]}" install -y -qq "$@" >/dev/null || true
}

# Not `command -v`, which would find a function of that name.
has() { type -P "$1" >/dev/null; }
has_chromium() { has chromium || has chromium-browser || has google-chrome; }

# --- the tests -----------------------------------------------------------------------------------------------------

# Tests that were skipped, repeated or inconclusive: the harness of crates/testkit writes them here.
export FULLPIPE_TEST_RECORD="$target/test-record.jsonl"
mkdir -p "$target"
rm -f "$FULLPIPE_TEST_RECORD"
reports=()
failed=

need_nextest() {
    cargo nextest --version >/dev/null 2>&1 && return
    say "cargo-nextest"
    # Without optimization, which takes four times as long and gains nothing here.
    cargo install --quiet --locked --debug --version 0.9.114 cargo-nextest \
        --no-default-features --features default-no-update
}

# `lane NAME PROFILE ARGUMENT...`: one call of nextest. A failure is told at the end, with those of
# the other lanes.
run_lane() {
    local name=$1 profile=$2 report
    shift 2
    report="$target/junit-$name.xml"
    rm -f "$target/nextest/$profile/junit.xml"
    cargo nextest run --workspace "${release[@]}" --profile "$profile" "$@" || failed=1
    if [ -e "$target/nextest/$profile/junit.xml" ]; then
        mv "$target/nextest/$profile/junit.xml" "$report"
        reports+=("$report")
    fi
}

# The closing lines. What failed outside of nextest has ended the script before.
summary() {
    say "summary"
    local code=0
    "$target/release/test-summary" "$FULLPIPE_TEST_RECORD" "${reports[@]}" || code=$?
    [ -z "$failed" ] && [ "$code" = 0 ] || exit 1
}

formatting() {
    say "formatting"
    cargo fmt --all --check
    local manifest
    cargo fmt --manifest-path crates/tcp/board/Cargo.toml --check
    for manifest in crates/tcp/vpn/Cargo.toml python/Cargo.toml web/lab/Cargo.toml web/bindgen/Cargo.toml; do
        cargo fmt --manifest-path "$manifest" --check
        # A dependency of the lab that is new belongs into its lock file too.
        cargo metadata --manifest-path "$manifest" --locked --format-version 1 >/dev/null
    done
}

lints() {
    say "lints"
    cargo clippy --workspace --all-targets "${release[@]}" -- -D warnings
}

fast_lane() {
    say "tests without a clock"
    run_lane fast fast -E 'not binary(live)' "$@"
}

serial_lane() {
    say "tests in real time"
    run_lane serial serial -E 'binary(live)' "$@"
}

# A second QUIC implementation to talk to, where Python can make a virtual environment.
aioquic() {
    local venv=.venv requirements=crates/cli/tests/aioquic/requirements.txt
    if ! cmp -s "$requirements" "$venv/installed.txt"; then
        say "aioquic into $venv"
        has python3 || apt_install python3
        # Debian keeps the module in a package of its own.
        python3 -m venv "$venv" >/dev/null 2>&1 || apt_install python3-venv
        if ! python3 -m venv "$venv" >/dev/null 2>&1 ||
            ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"; then
            echo "not installed: it needs Python 3.9 or later with venv, and PyPI"
            return
        fi
        cp "$requirements" "$venv/installed.txt"
    fi
    export FULLPIPE_PYTHON="$PWD/$venv/bin/python"
}

# --- --long --------------------------------------------------------------------------------------------------------

# The poll loop of crates/tcp/board, for a Cortex-M4. The core alone is built for WebAssembly too.
bare=thumbv7em-none-eabi
wasm=wasm32-unknown-unknown

# Whether what crates/bpf/build takes is new enough.
new_clang() {
    local clang
    clang=$(type -P ${CLANG:-clang-19 clang-20 clang-18 clang-17 clang} | head -n 1)
    [ -n "$clang" ] && [ "$("$clang" -dumpversion | cut -d. -f1)" -ge 17 ]
}

can_build_kernel() {
    [ "$(uname)" = Linux ] && new_clang && has make && has pkg-config &&
        [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]
}

# BBRv3 as BPF is a feature of its own, because it needs clang and libelf to be built. Where they are,
# one build with it serves all lanes; the workspace is named, so that the dependencies are those that
# are built already.
kernel_feature() {
    features=()
    if can_build_kernel; then
        features=(--features fullpipe/kernel,fullpipe-bpf/loader)
    fi
}

# Each feature of the core alone, the lab as the page has it, and the command as `cargo run` builds
# it. They take a minute and a half of which nothing is run: the workflow lints.
features_alone() {
    say "features, one at a time"
    local features
    for features in "" bbr3 bbr3x bbr3-linux bbr3x-linux bbr-swift prague bbr1 cubic reno careful-resume,bbr3 l4s,bbr3,bbr3x custom,serde,defmt; do
        cargo clippy "${release[@]}" -p fullpipe-cc --no-default-features --features "$features" -- -D warnings
    done
    cargo clippy "${release[@]}" -p fullpipe-lab --no-default-features --lib -- -D warnings
    cargo clippy "${release[@]}" -p fullpipe-figures --lib -- -D warnings
    cargo clippy "${release[@]}" --manifest-path crates/tcp/vpn/Cargo.toml --target-dir "$target/vpn" -- -D warnings
    cargo clippy "${release[@]}" -p fullpipe --bins -- -D warnings
}

no_operating_system() {
    say "the crates that need no operating system"
    if has rustup && rustup target add "$bare" "$wasm"; then
        cargo build "${release[@]}" -p fullpipe-cc --all-features --target "$bare"
        cargo build "${release[@]}" -p fullpipe-cc --all-features --target "$wasm"
        cargo build "${release[@]}" -p fullpipe-tcp --features interface --target "$bare"
    else
        echo "not run: rustup could not add $bare and $wasm"
    fi
}

board() {
    say "TCP on a board, under QEMU"
    has qemu-system-arm || apt_install qemu-system-arm
    if has qemu-system-arm && has rustup && rustup target add "$bare"; then
        (cd crates/tcp/board && cargo run "${release[@]}" --target-dir "$target/board")
    else
        echo "not run: it needs qemu-system-arm (apt-get install qemu-system-arm) and rustup"
    fi
}

# The wheel, and its tests in a virtual environment below target. What the tests are held against is
# the command.
python_package() {
    say "the Python package, and a Ray cluster on this machine"
    local python="$target/python" version='import sys; sys.exit(sys.version_info < (3, 10))'
    if ! python3 -c "$version" 2>/dev/null; then
        echo "not run: it needs Python 3.10 or later"
        return
    fi
    python3 -m venv "$python/venv" 2>/dev/null || { apt_install python3-venv; python3 -m venv "$python/venv"; }
    local pip=("$python/venv/bin/python" -m pip --disable-pip-version-check install --quiet)
    if ! "${pip[@]}" -r python/tests/requirements.txt; then
        echo "not run: the packages of python/tests/requirements.txt could not be installed"
        return
    fi
    "${pip[@]}" ray || echo "not run: the tests on a cluster (pip install ray)"
    rm -rf "$python/wheels"
    (cd python && "$python/venv/bin/maturin" build "${release[@]}" --target-dir "$target" --out "$python/wheels")
    local wheel=("$python"/wheels/*.whl)
    "${pip[@]}" --force-reinstall --no-deps "${wheel[0]}"
    # From here, so that the installed package is tested and not the folder of its source.
    FULLPIPE_COMMAND="$target/release/fullpipe" FULLPIPE_WHEEL="${wheel[0]}" \
        "$python/venv/bin/python" -m pytest python/tests --durations=5
}

# The page that runs the lab in a browser. What its tests are held against is the command.
lab_page() {
    say "the page that runs the lab in a browser"
    # What vite asks for.
    local version='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a == 22 && b >= 12) || (a == 20 && b >= 19) ? 0 : 1)'
    has npm || apt_install nodejs npm
    if ! has npm || ! node -e "$version"; then
        echo "not run: it needs npm, and Node 20.19 or 22.12 or later"
    elif ! has_chromium; then
        echo "not run: there is no Chromium here (apt-get install chromium)"
    elif ! has rustup || ! rustup target add wasm32-unknown-unknown; then
        echo "not run: it needs rustup, for the target wasm32-unknown-unknown"
    elif ! (cd web && npm ci --no-audit --no-fund); then
        echo "not run: the packages of web/package-lock.json could not be installed"
    else
        (cd web && CARGO_TARGET_DIR="$target/web" npm run build && FULLPIPE="$target/release/fullpipe" npm test)
    fi
}

more_cases() {
    say "more generated cases"
    PROPTEST_CASES=250 FUZZ_EVENTS=250000 STRANGERS=250000 JUDGE_SEEDS=10 FUZZ_DATAGRAMS=250000 \
        run_lane cases fast "$@" -E 'not binary(live) and (test(properties) or test(invariants) or test(fuzz)
            or test(hostile) or test(strangers) or test(verdicts) or test(judge))'
    PROPTEST_CASES=3000 run_lane twin fast "$@" -E 'not binary(live) and test(twin)'
}

# The crates under everything once more with the assertions and overflow checks that the release
# profile leaves out. Only they are built again, not what they depend on.
debug_assertions() {
    say "tests of the core with debug assertions"
    local checked=() packages=() crate check
    for crate in fullpipe-units fullpipe-cc fullpipe-path fullpipe-traffic fullpipe-sim fullpipe-tcp; do
        packages+=(-p "$crate")
        for check in debug-assertions overflow-checks; do
            checked+=(--config "profile.release.package.$crate.$check=true")
        done
    done
    cargo nextest run "${release[@]}" --profile default "${checked[@]}" "${packages[@]}" -E 'not binary(live)' ||
        failed=1
}

# The crates that may be published, each with its rust-version.
published() {
    cargo metadata --no-deps --locked --format-version 1 | python3 -c 'import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None:
        print(package["name"], package["rust_version"])'
}

# A sample, the same in each run: the core is built once for each mutant.
mutants() {
    say "mutants of the core, a sample"
    if [ -z "${MUTANTS:-}" ]; then
        echo "not run: four builds of the core without optimization (MUTANTS=1 ./test.sh --long)"
    elif has python3; then
        scripts/mutants.sh || failed=1
    else
        echo "not run: it needs python3"
    fi
}

# The first snippet of a crate's page, as the program of somebody else that takes the crate from its
# package: outside CRATE PAGE DEPENDENCY...
outside() {
    local dir="$alone/outside-$1" page=$2 dependency
    mkdir -p "$dir/src"
    {
        printf '[package]\nname = "outside-%s"\nedition = "2024"\n[dependencies]\n%s = "*"\n' "$1" "$1"
        for dependency in "${@:3}"; do echo "$dependency"; done
    } >"$dir/Cargo.toml"
    awk '/^```rust$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$page" >"$dir/src/main.rs"
    grep -q 'fn main' "$dir/src/main.rs" || sed -i '1i fn main() {' "$dir/src/main.rs"
    grep -q '^}$' "$dir/src/main.rs" || echo '}' >>"$dir/src/main.rs"
}

# Each crate that may be published is checked from its package alone, as from the registry, with the
# oldest Rust that it needs; so is a program for each snippet of a transport's page.
packages() {
    say "packages, with the oldest Rust that each of them needs"
    local crate version archive names=() alone="$target/package/alone"
    while read -r crate version; do
        names+=(-p "$crate")
    done < <(published)
    rm -rf "$target/package"
    cargo package --allow-dirty --locked --no-verify "${names[@]}"
    mkdir "$alone"
    printf '[workspace]\nresolver = "3"\nmembers = ["fullpipe-*", "outside-*"]\n[patch.crates-io]\n' >"$alone/Cargo.toml"
    for archive in "$target"/package/*.crate; do
        # With the time of now: in the archive all files have the same, and look as if they were checked.
        tar -xzmf "$archive" -C "$alone"
        archive=$(basename "$archive" .crate)
        echo "${archive%-*} = { path = \"$archive\" }" >>"$alone/Cargo.toml"
    done
    cp Cargo.lock "$alone"
    local tokio='tokio = { version = "1", features = ["macros", "rt-multi-thread"] }' rcgen='rcgen = "*"'
    outside fullpipe-cc crates/cc/README.md
    outside fullpipe-noq crates/noq/README.md 'noq = "=1.4.0"' "$tokio" "$rcgen"
    outside fullpipe-quinn crates/quinn/README.md 'quinn = "0.11"' 'rustls = "0.23"' "$tokio" "$rcgen"
    outside fullpipe-s2n-quic crates/s2n/README.md 's2n-quic = "1"' "$tokio" "$rcgen"
    while read -r crate version; do
        if has rustup && rustup toolchain install "$version" --profile minimal --no-self-update; then
            (
                cd "$alone"
                cargo "+$version" check --target-dir "$target/msrv" -p "$crate"
                if [ -d "outside-$crate" ]; then
                    cargo "+$version" check --target-dir "$target/msrv" -p "outside-$crate"
                fi
            )
        else
            echo "not checked: $crate with Rust $version (rustup could not install it)"
        fi
    done < <(published)
}

# DENY=1 installs it, which takes some minutes. The advisories come from a repository of RustSec's
# on GitHub.
dependencies() {
    say "licences, sources and advisories of the dependencies"
    if ! has cargo-deny && [ -n "${DENY:-}" ]; then
        cargo install --locked --quiet cargo-deny
    fi
    if has cargo-deny; then
        local advisories=(advisories) manifest
        cargo deny fetch db || { advisories=(); echo "not checked: advisories (their database cannot be fetched)"; }
        for manifest in Cargo.toml crates/tcp/vpn/Cargo.toml python/Cargo.toml web/lab/Cargo.toml web/bindgen/Cargo.toml; do
            cargo deny --manifest-path "$manifest" --config "$PWD/deny.toml" --all-features \
                check --hide-inclusion-graph --allow duplicate "${advisories[@]}" licenses bans sources
        done
    else
        echo "not run: there is no cargo-deny (DENY=1 ./test.sh --long installs it)"
    fi
}

documentation() {
    say "documentation"
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps "${release[@]}" --quiet
    if has mdbook; then
        scripts/site.sh "$target/site"
    else
        echo "not built: the site (cargo install --locked mdbook)"
    fi
}

debian_package() {
    say "the package fullpipe-bbr3"
    if [ -z "${DEB_IN_QEMU:-}" ]; then
        echo "not run: installing it in a virtual machine, about ten minutes (DEB_IN_QEMU=1 ./test.sh --long)"
    elif can_install; then
        apt_install mmdebstrap qemu-system-x86 e2fsprogs lintian dpkg-dev
        has cargo-deb || cargo install --locked --quiet cargo-deb
        scripts/deb-in-qemu.sh
    else
        echo "not run: it needs root on Debian"
    fi
}

# As much of it as can be seen on Debian: that it is built, and what is in it.
rpm_package() {
    say "the RPM package fullpipe-bbr3"
    if [ -z "${RPM:-}" ]; then
        echo "not run: building it (RPM=1 ./test.sh --long)"
    elif can_build_kernel; then
        apt_install rpm
        has cargo-generate-rpm || cargo install --locked --quiet cargo-generate-rpm
        rpm -qpl "$(scripts/rpm.sh)"
    else
        echo "not run: it needs clang-19, libelf-dev, zlib1g-dev, make and pkg-config"
    fi
}

run_long() {
    say "programs that the tests need"
    # nginx is not installed here: its package starts a server on port 80.
    apt_install chromium curl iperf3 iproute2 strace tcpdump clang-19 libelf-dev zlib1g-dev make pkg-config
    aioquic
    kernel_feature
    if [ ${#features[@]} = 0 ]; then
        echo "not built: the kernel program (clang-19, libelf-dev, zlib1g-dev, make and pkg-config)"
    fi
    if [ -n "${BULK_HTTP3:-}" ]; then
        cargo build "${release[@]}" --features full
        # What cannot be installed is skipped, and said so.
        "$target/release/fullpipe" peers install quic-go aioquic || true
    fi
    say "tests in real time, and with other programs"
    run_lane long long "${features[@]}" -E 'binary(live)' --run-ignored only
    more_cases "${features[@]}"
    python_package
    lab_page
    board
    no_operating_system
    documentation
    debug_assertions
    mutants
    packages
    dependencies
    debian_package
    rpm_package
    say "README's commands on a bare machine"
    if [ -n "${BARE:-}" ]; then
        scripts/bare.sh
    else
        echo "not run: it takes a quarter of an hour (BARE=1 ./test.sh --long, or scripts/bare.sh as root)"
    fi
}

# --- the lanes -----------------------------------------------------------------------------------------------------

case "$lane" in features | release) ;; *) need_nextest ;; esac
case "$lane" in
    fast)
        formatting
        lints
        fast_lane
        ;;
    all)
        # Other programs that the tests in real time talk to.
        has iperf3 || apt_install iperf3
        aioquic
        formatting
        kernel_feature
        fast_lane "${features[@]}"
        say "examples in the documentation"
        cargo test --workspace --doc "${release[@]}" --quiet "${features[@]}"
        serial_lane "${features[@]}"
        ;;
    features)
        features_alone
        exit
        ;;
    release)
        no_operating_system
        packages
        exit
        ;;
    --long)
        run_long
        ;;
esac
summary
