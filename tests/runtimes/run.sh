#!/usr/bin/env bash
# Every release of Node.js and Python that can be had, through a real server: what tests/runtimes/interpreters.py fetches and finds.
#
#   FLINT_BIN=… tests/runtimes/run.sh [NAME…]      only tests whose name contains one of NAME, for example nodejs_24
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${FLINT_BIN:?names the flint binary, for example FLINT_BIN=\$(scripts/build.sh)}"
export FLINT_BIN
select=()
for name in "$@"; do select+=(-k "$name"); done
PYTHONPATH=tests/harness exec python3 tests/runtimes/test_runtimes.py -v "${select[@]}"
