#!/usr/bin/env bash
# Ends what start.sh DATA_DIR started, and removes DATA_DIR.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../backends/lib.sh"
stop "$@"
