#!/usr/bin/env bash
# Functions in WebAssembly, in every language: written by `flint init`, built and deployed by `flint deploy`, called through a real server. First
# what surrounds JavaScript handlers, in Node.js.
#
#   tests/wasm/run.sh [NAME…]      only tests whose name contains one of NAME
#
# FLINT_TEST_STARLING=1 also installs (400 MB) and tests componentize-js.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

[ -n "${FLINT_BIN-}" ] || FLINT_BIN=$(scripts/build.sh)
export FLINT_BIN
# shellcheck source=tests/wasm/toolchains.sh
. tests/wasm/toolchains.sh
functions/java-faas/build.sh
[ $# -gt 0 ] || node --test --test-reporter=spec tests/wasm/glue/*.test.mjs
select=()
for name in "$@"; do select+=(-k "$name"); done
exec python3 tests/wasm/test_wasm.py -v "${select[@]}"
