#!/usr/bin/env bash
# The five device servers of the Alexa chain (ours, Python's standard library).
#
#   start.sh DATA_DIR [--network NETWORK_DIR]      prints url, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

begin "$@"
port=$(free_port)
run python3 "$here/devices/server.py" "$address" "$port"
ready accepts "$port"
say "url=http://$address:$port"
