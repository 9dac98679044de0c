#!/usr/bin/env bash
# The command line against a real server: builds the binary unless FLINT_BIN names one, then runs every case.
#
#   tests/cli/run.sh [NAME…]      only cases whose name contains one of NAME
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ -z "${FLINT_BIN-}" ]; then
  cargo build --quiet --package flint --bin flint
  target=$(cargo metadata --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
  FLINT_BIN=$target/debug/flint
fi
exec python3 tests/cli/run.py --flint "$FLINT_BIN" "$@"
