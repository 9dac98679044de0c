#!/usr/bin/env bash
# Removes the network of start.sh NETWORK_DIR, and the folder. Stop the back ends in it first.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$here/network/end.sh"
[ -d "${1:?usage: stop.sh NETWORK_DIR}" ] || die "there is no $1"
# A start that was killed before it created anything has left an empty folder.
[ -f "$1/env" ] || { rmdir "$1" 2> /dev/null || die "there is no network in $1"; exit; }
end_network "$1"
