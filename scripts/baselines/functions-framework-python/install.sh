#!/usr/bin/env bash
# Installs what requirements.txt names into a virtual environment in the cache, unless it is there, and says where it is.
#
#   install.sh [--installed]      with --installed it only looks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

list=$baselines/functions-framework-python/requirements.txt
have python3 || die "there is no python3"
print=$({ cat "$list"; python3 -c 'import sys; print(sys.implementation.cache_tag, sys.prefix)'; } | sha256sum | cut -c 1-12)
folder=$cache/functions-framework-python-$print
if [ ! -f "$folder/.ready" ]; then
  [ "${1-}" != --installed ] || exit 1
  rm -rf "$folder"
  mkdir -p "$cache"
  python3 -m venv "$folder" >&2
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$list" >&2
  touch "$folder/.ready"
fi
echo "$folder"
