#!/usr/bin/env bash
# The container's start: the simulator's routes, then one end of a case.
set -euo pipefail
/setup.sh
if [ "$ROLE" = client ]; then
    /wait-for-it.sh sim:57832 -s -t 30
fi
exec /run_endpoint.sh
