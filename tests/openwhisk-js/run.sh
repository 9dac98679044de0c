#!/usr/bin/env bash
# The OpenWhisk API through its own JavaScript client, unmodified, against a real server.
#
#   FLINT_BIN=… tests/openwhisk-js/run.sh [FILE…]     default: every test/*.test.mjs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
: "${FLINT_BIN:?names the flint binary, for example FLINT_BIN=\$(scripts/build.sh)}"
export FLINT_BIN
# Exactly what the lock file says; a second run finds it there.
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --silent --no-audit --no-fund
fi
# The jar that is deployed; built where there is a compiler, and up to date after the first time.
if command -v javac > /dev/null; then ../../functions/samples/build.sh hello-java; fi
[ $# -gt 0 ] || set -- test/*.test.mjs
exec node --test --test-concurrency=1 \
  --test-reporter=spec --test-reporter-destination=stdout \
  --test-reporter=./lib/summary.mjs --test-reporter-destination=stdout "$@"
