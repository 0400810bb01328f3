#!/usr/bin/env bash
# An endpoint of the QUIC interop runner over the example programs of ngtcp2. The environment says
# what it does, as that of the runner's containers does: ROLE, TESTCASE, REQUESTS, WWW, DOWNLOADS,
# CERTS, LISTEN, PREFERRED_ADDRESS and QLOGDIR; GnuTLS reads SSLKEYLOGFILE.
#
# They speak HTTP/3 in every case, because hq-interop is not in them. A case that they lack ends
# with 127: v2, because of version 2 they have a draft.
set -euo pipefail

ROLE=${ROLE:?is server or client}
TESTCASE=${TESTCASE:?is the name of a case}
WWW=${WWW:-/www} DOWNLOADS=${DOWNLOADS:-/downloads} CERTS=${CERTS:-/certs} LISTEN=${LISTEN:-[::]:443}
# A file of transfer is larger than their window at first; losses take more than 10 s of a
# handshake.
both=(-q --handshake-timeout=60s)
server=() client=()
PREFERRED_ADDRESS=${PREFERRED_ADDRESS:-}

case "$TESTCASE" in
    handshake | transfer | longrtt | multiplexing | multiconnect | resumption | zerortt | http3 | blackhole | ecn) ;;
    amplificationlimit | ipv6 | rebind-port | rebind-addr | goodput | crosstraffic) ;;
    handshakeloss | transferloss | handshakecorruption | transfercorruption) ;;
    chacha20) both+=(--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305) ;;
    retry) server+=(-V) ;;
    keyupdate) client+=(--key-update=100ms) ;;
    connectionmigration)
        [ "$ROLE" = client ] || : "${PREFERRED_ADDRESS:?are the addresses of IPv4 and IPv6, with a comma between them}"
        server+=("--preferred-ipv4-addr=${PREFERRED_ADDRESS%,*}" "--preferred-ipv6-addr=${PREFERRED_ADDRESS#*,}")
        ;;
    *) echo "ngtcp2 has no case '$TESTCASE'" >&2; exit 127 ;;
esac
if [ -n "${QLOGDIR:-}" ]; then
    mkdir -p "$QLOGDIR"
    both+=(--qlog-dir="$QLOGDIR")
fi

# get URL...: all over one connection.
get() {
    local authority=${1#https://}
    authority=${authority%%/*}
    local host=${authority%:*}
    host=${host#[}
    gtlsclient "${both[@]}" "${client[@]}" --exit-on-all-streams-close --download="$DOWNLOADS" \
        "${host%]}" "${authority##*:}" "$@" >&2
}

case "$ROLE" in
    server)
        address=${LISTEN%:*}
        address=${address#[}
        exec gtlsserver "${both[@]}" "${server[@]}" -d "$WWW" "${address%]}" "${LISTEN##*:}" \
            "$CERTS/priv.key" "$CERTS/cert.pem"
        ;;
    client)
        read -ra urls <<<"${REQUESTS:?are the URLs}"
        state=$(mktemp -d)
        trap 'rm -rf "$state"' EXIT
        case "$TESTCASE" in
            multiconnect | handshakeloss | handshakecorruption) for url in "${urls[@]}"; do get "$url"; done ;;
            resumption | zerortt)
                client+=(--session-file="$state/session" --tp-file="$state/parameters")
                [ "$TESTCASE" = zerortt ] || client+=(--disable-early-data)
                get "${urls[0]}"
                get "${urls[@]:1}"
                ;;
            *) get "${urls[@]}" ;;
        esac
        # The client ends with 0 whatever happened.
        for url in "${urls[@]}"; do
            [ -e "$DOWNLOADS/${url##*/}" ] || { echo "no $url" >&2; exit 1; }
        done
        ;;
    *) echo "ROLE is server or client, not '$ROLE'" >&2; exit 2 ;;
esac
