#!/usr/bin/env bash
# A server with CouchDB's API: PouchDB Server, with in-memory databases. No package registry has CouchDB
# itself.
#
#   start.sh DATA_DIR [--network NETWORK_DIR]      prints url, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

program=$("$here/couchdb/install.sh" --installed) || die "it is not installed: scripts/backends/couchdb/install.sh (a minute or two)"
have node || die "there is no node: apt-get install nodejs"
begin "$@"
port=$(free_port)
cd "$data"
run node "$program" --in-memory --no-color --host "$address" --port "$port"
ready accepts "$port"
say "url=http://$address:$port" "version=$(package "${program%/.bin/*}/pouchdb-server")"
