#!/usr/bin/env bash
# Runs every workload directly in its language's interpreter, at size test, and asks its oracle; then the tests of the tools themselves.
# Packages that are not there yet come from the registries; with --offline they do not, and what needs them is said to be not checked.
#
#   functions/test.sh [--offline] [WORD…]      a WORD is a suite, a name or suite/name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python3 -m unittest discover --quiet --start-directory tools
exec python3 tools/direct.py "$@"
