#!/usr/bin/env bash
# Builds Flint (unless FLINT_BIN names it) and the sample functions, then runs the demonstration (scripts/demo.py
# says what that is).
#
#   scripts/demo.sh [--stay] [--listen ADDR:PORT] [--data-dir DIR]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# Checks the arguments first: otherwise errors would appear after minutes of building.
python3 scripts/demo.py --check "$@"
flint=${FLINT_BIN:-$(scripts/build.sh)}
functions/samples/build.sh
# The sample's own Python has the imaging library that verifies the thumbnails.
exec functions/samples/resize-python/virtualenv/bin/python scripts/demo.py --flint "$flint" "$@"
