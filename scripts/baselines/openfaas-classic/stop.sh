#!/usr/bin/env bash
# Ends what start.sh DATA_DIR started, its container too, and removes DATA_DIR.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../openwhisk/pool.sh"
stop_pool "$@"
