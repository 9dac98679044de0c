#!/usr/bin/env bash
# Measures Flint's parts by themselves, which `flint bench promises` does not, and prints one table of what is
# promised of them: see SPECIFICATION.md, "The parts by themselves". Some ten minutes when everything is built;
# both cores should be free.
#
#   scripts/bench-parts.sh [--list]     --list: only the commands
#
# FLINT_BIN names the binary; without it the release binary is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
case ${1-} in
  '' | --list) ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
if [ "${1-}" != --list ] && [ -z "${FLINT_BIN-}" ]; then
  FLINT_BIN=$(scripts/build.sh)
  export FLINT_BIN
fi
exec python3 scripts/parts/table.py "$@"
