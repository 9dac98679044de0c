#!/usr/bin/env bash
# The demonstration of the README, checked: deploys the samples, makes thumbnails in three languages, stops. Then as
# `make run` starts it: it stays, and what it says to try next works.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
FLINT_BIN=${FLINT_BIN:-$(scripts/build.sh)}
export FLINT_BIN
scripts/demo.sh
PYTHONPATH=tests/harness exec python3 tests/demo/stay.py
