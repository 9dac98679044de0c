#!/usr/bin/env bash
# Installs PouchDB Server (npm, Apache-2.0) by its lock file into the cache, unless installed, and prints its
# folder.
#
#   install.sh [--installed]      with --installed it only checks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

print=$(cat "$here"/couchdb/package*.json | sha256sum | cut -c 1-12)
folder=$cache/couchdb-$print
if [ ! -d "$folder" ]; then
  [ "${1-}" != --installed ] || exit 1
  have npm || die "there is no npm: apt-get install nodejs npm"
  mkdir -p "$cache"
  new=$(mktemp -d "$cache/couchdb.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  cp "$here"/couchdb/package*.json "$new"
  (cd "$new" && npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error >&2)
  mv -T "$new" "$folder" 2> /dev/null || [ -d "$folder" ]
fi
echo "$folder/node_modules/.bin/pouchdb-server"
