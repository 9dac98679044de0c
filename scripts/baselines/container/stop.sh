#!/usr/bin/env bash
# Ends what start.sh DATA_DIR started, containers that still run too, and removes DATA_DIR.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[ -d "${1:?usage: stop.sh DATA_DIR}" ] || die "there is no $1"
[ -f "$1/env" ] || { stop "$1"; exit; }
program=$(value runtime "$1/env")
stop_by_pid "$1"
for id in $("$program" --root "$1/state" list --quiet); do "$program" --root "$1/state" delete --force "$id"; done
stop "$1"
