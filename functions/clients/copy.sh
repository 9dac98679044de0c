#!/usr/bin/env bash
# Puts clients beside the functions that need them: a function is deployed with its own folder, and with nothing of its neighbours.
#
#   functions/clients/copy.sh TARGET…      TARGET is a path whose last part is the name of a file here
set -euo pipefail
clients=$(dirname "${BASH_SOURCE[0]}")
for target in "$@"; do
  cmp -s "$clients/$(basename "$target")" "$target" || install -D -m 644 "$clients/$(basename "$target")" "$target"
done
