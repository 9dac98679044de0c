#!/usr/bin/env bash
# The baseline openwhisk with gVisor: runsc creates the sandboxes, with the platform systrap. Needs root.
#
#   [KEEP_ALIVE_MS=…] start.sh DATA_DIR FILE.js|FILE.py|DIRECTORY      prints url, runtime, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../openwhisk/pool.sh"
start_pool "$baselines/gvisor/install.sh" "$1" "${2-}" --keep-alive "${KEEP_ALIVE_MS:-600000}"
