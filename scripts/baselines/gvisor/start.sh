#!/usr/bin/env bash
# The same as the baseline openwhisk, in gVisor: runsc makes the sandboxes, with its platform systrap. Needs root.
#
#   [KEEP_ALIVE_MS=…] start.sh DATA_DIR FILE.js|FILE.py|DIRECTORY      says url, runtime, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../openwhisk/pool.sh"
start_pool "$baselines/gvisor/install.sh" "$1" "${2-}" --keep-alive "${KEEP_ALIVE_MS:-600000}"
