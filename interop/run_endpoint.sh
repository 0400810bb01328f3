#!/usr/bin/env bash
# One end of a case of the QUIC interop runner (https://github.com/quic-interop/quic-interop-runner): ROLE is server or
# client, TESTCASE the case, REQUESTS the URLs. A case that fullpipe does not have ends with exit code 127.
#
# Out of a container, WWW, DOWNLOADS, CERTS and LISTEN name other places, and FULLPIPE another command.
set -euo pipefail

WWW=${WWW:-/www}
DOWNLOADS=${DOWNLOADS:-/downloads}
CERTS=${CERTS:-/certs}
LISTEN=${LISTEN:-[::]:443}
FULLPIPE=${FULLPIPE:-fullpipe}
ROLE=${ROLE:?is server or client}
TESTCASE=${TESTCASE:?is the name of a case}
args=()

# The switches of a case; without a line here it is not supported. Not there: connectionmigration (a preferred address).
case "$TESTCASE" in
    handshake | transfer | longrtt | multiplexing | multiconnect | blackhole | ecn | amplificationlimit | ipv6) ;;
    handshakeloss | transferloss | handshakecorruption | transfercorruption) ;;
    rebind-port | rebind-addr | goodput | crosstraffic) ;;
    http3) [ "$ROLE" = server ] || args+=(--alpn h3) ;;
    v2) [ "$ROLE" = server ] || args+=(--quic-versions v1,v2) ;;
    chacha20) args+=(--ciphers chacha20) ;;
    retry) [ "$ROLE" = client ] || args+=(--retry-above 0) ;;
    keyupdate) [ "$ROLE" = server ] || args+=(--key-update) ;;
    resumption) [ "$ROLE" = server ] || args+=(--resume) ;;
    zerortt) if [ "$ROLE" = server ]; then args+=(--early-data); else args+=(--resume --early-data); fi ;;
    *) echo "fullpipe has no case '$TESTCASE'"; exit 127 ;;
esac
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
        # The runner's certificates are of an issuer of its own, and a chain of theirs is longer than any that is checked.
        args+=(--insecure --output-dir "$DOWNLOADS" --connect-timeout 60s)
        [ "$TESTCASE" = http3 ] || args+=(--alpn hq-interop)
        case "$TESTCASE" in
            multiconnect | handshakeloss | handshakecorruption)
                for url in "${urls[@]}"; do "$FULLPIPE" get "$url" "${args[@]}" "${more[@]}"; done
                ;;
            *) "$FULLPIPE" get "${urls[@]}" "${args[@]}" "${more[@]}" ;;
        esac
        ;;
    *) echo "ROLE is server or client, not '$ROLE'"; exit 2 ;;
esac
