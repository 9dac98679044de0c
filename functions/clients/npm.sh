#!/usr/bin/env bash
# Installs the packages of FOLDER/package-lock.json beside a Node.js function, if they are out of date.
#
#   functions/clients/npm.sh FOLDER
set -euo pipefail
cd "$1"
print=$(cat package.json package-lock.json | sha256sum)
[ "$(cat node_modules/.built 2> /dev/null)" != "$print" ] || exit 0
npm ci --omit=dev --omit=optional --no-audit --no-fund --loglevel=error > /dev/null
echo "$print" > node_modules/.built
