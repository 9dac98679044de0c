#!/usr/bin/env bash
# Ends what start.sh DATA_DIR started, its containers too, and removes DATA_DIR.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/pool.sh"
stop_pool "$@"
