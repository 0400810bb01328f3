#!/usr/bin/env bash
# One end of a case of the QUIC interop runner
# (https://github.com/quic-interop/quic-interop-runner): ROLE is server or client, TESTCASE the
# case, REQUESTS the URLs. A case that fullpipe does not have ends with exit code 127.
#
# Out of a container, WWW, DOWNLOADS, CERTS and LISTEN name other places, and FULLPIPE another
# command. PREFERRED_ADDRESS is what the server of connectionmigration tells its clients, as
# fullpipe serve --preferred-address takes it; without it, port 4443 of the addresses that the
# runner gives the server.
set -euo pipefail

WWW=${WWW:-/www}
DOWNLOADS=${DOWNLOADS:-/downloads}
CERTS=${CERTS:-/certs}
LISTEN=${LISTEN:-[::]:443}
FULLPIPE=${FULLPIPE:-fullpipe}
ROLE=${ROLE:?is server or client}
TESTCASE=${TESTCASE:?is the name of a case}
args=()

# Port 4443 of the server's addresses in the runner's network, IPv4 and IPv6.
preferred_address() {
    local v4 v6
    v4=$(getent ahostsv4 server4 | awk 'NR == 1 { print $1 }')
    v6=$(getent ahostsv6 server6 | awk 'NR == 1 { print $1 }')
    [ -n "$v4" ] && [ -n "$v6" ] || { echo "no server4 and server6; set PREFERRED_ADDRESS" >&2; exit 1; }
    echo "$v4:4443,[$v6]:4443"
}

# The switches of a case; without a line here it is not supported.
case "$TESTCASE" in
    handshake | transfer | longrtt | multiplexing | multiconnect | blackhole | ecn | amplificationlimit | ipv6) ;;
    handshakeloss | transferloss | handshakecorruption | transfercorruption) ;;
    rebind-port | rebind-addr | goodput | crosstraffic) ;;
    # Every client of ours moves to a preferred address; the runner asks it for a transfer.
    connectionmigration)
        if [ "$ROLE" = server ]; then
            PREFERRED_ADDRESS=${PREFERRED_ADDRESS:-$(preferred_address)}
            args+=(--preferred-address "$PREFERRED_ADDRESS")
        fi
        ;;
    http3) [ "$ROLE" = server ] || args+=(--alpn h3) ;;
    v2) args+=(--quic-versions v1,v2) ;;
    chacha20) args+=(--ciphers chacha20) ;;
    retry) [ "$ROLE" = client ] || args+=(--retry-above 0) ;;
    keyupdate) [ "$ROLE" = server ] || args+=(--key-update) ;;
    resumption) [ "$ROLE" = server ] || args+=(--resume) ;;
    zerortt) if [ "$ROLE" = server ]; then args+=(--early-data); else args+=(--resume --early-data); fi ;;
    *) echo "fullpipe has no case '$TESTCASE'"; exit 127 ;;
esac
# Some clients offer version 2 in every case; only in its own is it to be chosen.
[ "$ROLE" = client ] || [ "$TESTCASE" = v2 ] || args+=(--quic-versions v1)
[ -z "${QLOGDIR:-}" ] || args+=(--qlog "$QLOGDIR")

case "$ROLE" in
    server)
        read -ra more <<<"${SERVER_PARAMS:-}"
        exec "$FULLPIPE" serve "$WWW" --listen "$LISTEN" --cert "$CERTS/cert.pem" --key "$CERTS/priv.key" \
            "${args[@]}" "${more[@]}"
        ;;
    client)
        read -ra more <<<"${CLIENT_PARAMS:-}"
        read -ra urls <<<"${REQUESTS:?are the URLs}"
        # The runner's certificates are of an issuer of its own, and a chain of theirs is longer
        # than any that is checked.
        args+=(--insecure --output-dir "$DOWNLOADS" --connect-timeout 60s)
        [ "$TESTCASE" = http3 ] || args+=(--alpn "${ALPN:-hq-interop}")
        case "$TESTCASE" in
            multiconnect | handshakeloss | handshakecorruption)
                for url in "${urls[@]}"; do "$FULLPIPE" get "$url" "${args[@]}" "${more[@]}"; done
                ;;
            *) "$FULLPIPE" get "${urls[@]}" "${args[@]}" "${more[@]}" ;;
        esac
        ;;
    *) echo "ROLE is server or client, not '$ROLE'"; exit 2 ;;
esac
