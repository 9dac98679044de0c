#!/usr/bin/env bash
# Removes the network of start.sh NETWORK_DIR, and the folder. Stop the back ends in it first.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$here/network/end.sh"
[ -f "${1:?usage: stop.sh NETWORK_DIR}/env" ] || die "there is no network in $1"
end_network "$1"
