#!/usr/bin/env bash
# The way from functions to the platform that runs them: a reverse proxy at the back ends' address, like an
# API gateway.
# FLINT_URL is the server (http://127.0.0.1:3233), FLINT_AUTH the key that functions get for it.
#
#   start.sh DATA_DIR [--network NETWORK_DIR]      prints url, auth, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[ -n "${FLINT_AUTH-}" ] || die "FLINT_AUTH is not set: the key that functions are to call with"
have node || die "there is no node: apt-get install nodejs"
begin "$@"
port=$(free_port)
# The listening socket is in the network's namespace, while the proxy stays on the host, from where it reaches
# the server's loopback address.
namespace=${network:+$(value namespace "$network/env")}
inside=()
run python3 "$here/gateway/listen.py" "$address" "$port" "$namespace" node "$here/gateway/proxy.js" "${FLINT_URL:-http://127.0.0.1:3233}"
[ -z "$namespace" ] || inside=(nsenter "--net=$namespace")
ready accepts "$port"
say "url=http://$address:$port" "auth=$FLINT_AUTH"
