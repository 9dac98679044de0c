#!/usr/bin/env bash
# Ends what start.sh DATA_DIR started, and removes DATA_DIR.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# SIGTERM would wait for every client to disconnect; SIGINT ends their sessions.
[ ! -f "${1-}/pid" ] || kill -INT "$(cat "$1/pid")" 2> /dev/null || true
stop "$@"
