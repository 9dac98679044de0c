#!/usr/bin/env bash
# Projects through Adobe's library for OpenWhisk, unmodified: it reads manifests, deploys and syncs what they say, and prints logs.
#
#   FLINT_BIN=… tests/aio-runtime/run.sh [FILE…]     default: every test/*.test.mjs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
: "${FLINT_BIN:?names the flint binary, for example FLINT_BIN=\$(scripts/build.sh)}"
export FLINT_BIN
# Exactly what the lock files say; a second run finds it there. The server that is asked is that suite's.
for suite in . ../openwhisk-js; do
  if [ ! -e "$suite/node_modules/.package-lock.json" ] || [ "$suite/package-lock.json" -nt "$suite/node_modules/.package-lock.json" ]; then
    (cd "$suite" && npm ci --silent --no-audit --no-fund)
  fi
done
[ $# -gt 0 ] || set -- test/*.test.mjs
exec node --test --test-concurrency=1 \
  --test-reporter=spec --test-reporter-destination=stdout \
  --test-reporter=../openwhisk-js/lib/summary.mjs --test-reporter-destination=stdout "$@"
