#!/usr/bin/env bash
# The workloads of functions/ on a real server with real back ends, every answer judged by its oracle; then the baselines.
#
#   tests/workloads/run.sh [WORD…]      a WORD is a suite, a name or suite/name; then without the baselines
#
# The S3 store takes minutes to build: without it in the cache what needs it is said to be not checked. FLINT_TEST_S3=1 builds it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

[ -n "${FLINT_BIN-}" ] || FLINT_BIN=$(scripts/build.sh)
export FLINT_BIN
# What cannot be installed is missing later on, with its reason.
scripts/backends/couchdb/install.sh > /dev/null || warn "the back end couchdb could not be installed"
[ -z "${FLINT_TEST_S3-}" ] || scripts/backends/s3/install.sh > /dev/null
functions/tools/deployed.py "$@"
[ $# -gt 0 ] || functions/tools/baselines.py
