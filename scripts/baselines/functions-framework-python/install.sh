#!/usr/bin/env bash
# Installs the packages of requirements.txt into a virtual environment in the cache, unless installed, and
# prints its folder.
#
#   install.sh [--installed]      with --installed it only checks
#
# BASELINE_PYTHON selects the Python of the environment; by default the first python3 on PATH.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

list=$baselines/functions-framework-python/requirements.txt
python=${BASELINE_PYTHON:-python3}
have "$python" || die "there is no $python"
print=$({ cat "$list"; "$python" -c 'import sys; print(sys.implementation.cache_tag, sys.prefix)'; } | sha256sum | cut -c 1-12)
folder=$cache/functions-framework-python-$print
if [ ! -f "$folder/.ready" ]; then
  [ "${1-}" != --installed ] || exit 1
  rm -rf "$folder"
  mkdir -p "$cache"
  "$python" -m venv "$folder" >&2
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$list" >&2
  touch "$folder/.ready"
fi
echo "$folder"
