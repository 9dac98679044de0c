#!/usr/bin/env bash
# workerd (npm, Apache-2.0): one process, an isolate of V8 for the function, all calls in the same isolate.
#
#   start.sh DATA_DIR FILE.js      prints url, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

code=$(code_file "${2-}" js)
packages=$("$baselines/workerd/install.sh" --installed) || die "it is not installed: scripts/baselines/workerd/install.sh"
case $(uname -m) in
  x86_64) machine=64 ;;
  aarch64) machine=arm64 ;;
  *) die "there is no workerd for $(uname -m)" ;;
esac
begin "$1"
port=$(free_port)
cp "$code" "$data/function.js"
cat > "$data/worker.mjs" << 'WORKER'
import code from './function.js';

export default {
  async fetch(request) {
    return Response.json(await code.main(await request.json()));
  },
};
WORKER
cat > "$data/config.capnp" << CONFIG
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "function", worker = .worker)],
  sockets = [(name = "http", address = "127.0.0.1:$port", http = (), service = "function")],
);

const worker :Workerd.Worker = (
  modules = [
    (name = "worker.mjs", esModule = embed "worker.mjs"),
    (name = "function.js", commonJsModule = embed "function.js"),
  ],
  compatibilityDate = "2025-09-01",
  compatibilityFlags = ["nodejs_compat"],
);
CONFIG
program=$packages/node_modules/@cloudflare/workerd-linux-$machine/bin/workerd
run "$program" serve "$data/config.capnp"
ready accepts "$port"
say "url=http://127.0.0.1:$port/" "version=$(version "$program" --version)"
