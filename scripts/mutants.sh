#!/usr/bin/env bash
# Mutants of the core and of the TCP: does a test fail when one operator, value or function of
# crates/cc, crates/units or crates/tcp is changed?
#
#   scripts/mutants.sh          # a sample of 3 of the core, the same in each run: MUTANTS=1 ./test.sh --long
#   scripts/mutants.sh FILE...  # all mutants of these files of the core, or of crates/tcp/src
#   scripts/mutants.sh all      # all of the core: hours
#
# A mutant that does not compile is not viable. More survivors than 8 of 100 viable ones are a
# failure, of the TCP 12, in a sample those beyond twice the deviation that chance gives it. Those
# that may survive are in .cargo/mutants.toml, with the reason of each. Runs of whole files write
# their rows of the table in CONTRIBUTING.md. MUTANTS_SHARD=3/875 takes another sample.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/mutants
version=27.1.0

cargo mutants --version 2>/dev/null | grep -qF " $version" ||
    cargo install --quiet --locked --debug --version "$version" cargo-mutants

packages=(--package fullpipe-cc --package fullpipe-units)
what=()
case "${1:-}" in
    "") what=(--shard "${MUTANTS_SHARD:-0/875}" --sharding round-robin) ;;
    all) ;;
    *)
        for file in "$@"; do what+=(--file "$file"); done
        case "$*" in
            *crates/cc/*crates/tcp/* | *crates/tcp/*crates/cc/* | *crates/units/*crates/tcp/* | *crates/tcp/*crates/units/*)
                echo "mutants: files of one crate at a time" >&2
                exit 1
                ;;
            *crates/tcp/*)
                packages=(--package fullpipe-tcp)
                # Its tests run for minutes, in crates that nothing optimizes for longer.
                what+=(--cargo-arg=--config=profile.dev.opt-level=1)
                export PROPTEST_CASES=64 FUZZ_EVENTS=10000 FUZZ_NETWORKS=400
                ;;
        esac
        ;;
esac

# Each mutant is built by itself, so that building counts more than running.
export CARGO_TARGET_DIR=$target/mutants-build CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG=0
mkdir -p "$out"
code=0
cargo mutants "${packages[@]}" --output "$out" --no-shuffle --jobs 1 --colors never \
    --minimum-test-timeout 60 --timeout-multiplier 4 "${what[@]}" || code=$?
# 2: there are survivors. 3: there were timeouts, which are caught mutants. 4: without a mutant.
case $code in
    0 | 2 | 3) ;;
    4)
        echo "mutants: the tests fail without a mutant, so that nothing was tried:" >&2
        echo "  cargo test ${packages[*]} --lib --test suite" >&2
        exit 1
        ;;
    *)
        echo "mutants: cargo-mutants ended with $code, so that nothing is known" >&2
        exit 1
        ;;
esac

python3 scripts/mutants.py "$out/mutants.out/outcomes.json" ${1:+CONTRIBUTING.md}
