#!/usr/bin/env bash
# Judges a stack in CI: what action.yml runs, and what other CI systems can run as well. It reads
# its inputs from the environment, because they are other people's command lines:
#
#   JUDGE_COMMAND     the command that transfers; {host} and {port} are replaced (needed)
#   JUDGE_UDP         LISTEN=SERVER: relay UDP, without root
#   JUDGE_SERVER      a command line that is started at the other end of each path
#   JUDGE_BACKGROUND  a command line that is started first, here, and ended at the end: a server behind the relay
#   JUDGE_QUICK       false for all sixteen paths [default: true]
#   JUDGE_BASELINE    what an earlier run left as judge.json; it is no error that it is not there
#   JUDGE_OUT         the directory for judge.json and judge.xml [default: fullpipe-judge]
#   FULLPIPE          the program [default: fullpipe]
#
# The exit code is that of fullpipe judge: 0 nothing is broken (or worse than the baseline), 1
# something is, 2 bad input.
set -euo pipefail

fail() {
    echo "error: $*" >&2
    exit 2
}

[ -n "${JUDGE_COMMAND:-}" ] || fail "JUDGE_COMMAND is empty; write the command that transfers, as 'my-client https://localhost:{port}/file'"
[ -z "${JUDGE_UDP:-}" ] || [ -z "${JUDGE_SERVER:-}" ] || fail "JUDGE_UDP and JUDGE_SERVER are two places for a server; write one of them"
case "${JUDGE_QUICK:-true}" in
    true | false) ;;
    *) fail "JUDGE_QUICK is '$JUDGE_QUICK'; write true or false" ;;
esac
fullpipe="${FULLPIPE:-fullpipe}"
command -v "$fullpipe" >/dev/null || fail "there is no $fullpipe; install it, or name it with FULLPIPE"
out="${JUDGE_OUT:-fullpipe-judge}"
mkdir -p "$out"

options=(--json --junit "$out/judge.xml")
[ "${JUDGE_QUICK:-true}" = false ] || options+=(--quick)
if [ -n "${JUDGE_BASELINE:-}" ]; then
    if [ -s "$JUDGE_BASELINE" ]; then
        options+=(--baseline "$JUDGE_BASELINE")
    else
        echo "there is no baseline at $JUDGE_BASELINE yet: keep $out/judge.json as one"
    fi
fi
as=()
if [ -n "${JUDGE_UDP:-}" ]; then
    options+=(--udp "$JUDGE_UDP")
else
    [ -z "${JUDGE_SERVER:-}" ] || options+=(--server "$JUDGE_SERVER")
    # Namespaces need root, unless the system permits them to others: a runner of GitHub's has sudo,
    # and does not.
    if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then
        as=(sudo --preserve-env=PATH)
    fi
fi

background=
end() {
    [ -z "$background" ] || kill -- "-$background" 2>/dev/null || true
}
trap end EXIT
if [ -n "${JUDGE_BACKGROUND:-}" ]; then
    # A process group of its own, so that all of it ends.
    set -m
    sh -c "$JUDGE_BACKGROUND" >"$out/background.log" 2>&1 &
    background=$!
    set +m
    sleep "${JUDGE_WAIT_S:-2}"
    kill -0 "$background" 2>/dev/null || fail "JUDGE_BACKGROUND has ended already; its last output: $(tail -n 3 "$out/background.log")"
fi

set +e
"${as[@]}" "$(command -v "$fullpipe")" judge "${options[@]}" -- sh -c "$JUDGE_COMMAND" \
    2>&1 >"$out/judge.json" | tee "$out/judge.log" >&2
code=${PIPESTATUS[0]}
set -e
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    {
        echo "### fullpipe judge: exit code $code"
        echo '```'
        tail -n 20 "$out/judge.log"
        echo '```'
    } >>"$GITHUB_STEP_SUMMARY"
fi
exit "$code"
