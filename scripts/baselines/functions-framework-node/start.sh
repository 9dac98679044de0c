#!/usr/bin/env bash
# Google's Functions Framework for Node.js (npm, Apache-2.0): one process, no sandbox.
#
#   start.sh DATA_DIR FILE.js      prints url, version, pid
#
# BASELINE_NODE selects its Node.js; by default the first node on PATH.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

code=$(code_file "${2-}" js)
packages=$("$baselines/functions-framework-node/install.sh" --installed) || die "it is not installed: scripts/baselines/functions-framework-node/install.sh"
begin "$1"
port=$(free_port)
NODE_PATH=$packages/node_modules NODE_ENV=production run "${BASELINE_NODE:-node}" "$baselines/functions-framework-node/serve.js" "$code" "$port"
ready accepts "$port"
say "url=http://127.0.0.1:$port/" "version=$(package "$packages/node_modules/@google-cloud/functions-framework")"
