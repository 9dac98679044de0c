#!/usr/bin/env bash
# Google's Functions Framework for Python (PyPI, Apache-2.0), as it is deployed: gunicorn, one process, threads, no sandbox.
#
#   start.sh DATA_DIR FILE.py      prints url, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

code=$(code_file "${2-}" py)
packages=$("$baselines/functions-framework-python/install.sh" --installed) ||
  die "it is not installed: ${BASELINE_PYTHON:+BASELINE_PYTHON=$BASELINE_PYTHON }scripts/baselines/functions-framework-python/install.sh"
begin "$1"
port=$(free_port)
cd "$data"
FUNCTION_FILE=$code run "$packages/bin/functions-framework" --source "$baselines/functions-framework-python/serve.py" --target serve \
  --host 127.0.0.1 --port "$port"
ready accepts "$port"
release=$(version "$packages/bin/python" -c 'from importlib.metadata import version; print("functions-framework", version("functions-framework"))')
say "url=http://127.0.0.1:$port/" "version=$release"
