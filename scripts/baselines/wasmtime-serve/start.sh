#!/usr/bin/env bash
# `wasmtime serve` as its users start it: one process, a new instance of the component for each request.
#
#   start.sh DATA_DIR FILE.wasm      prints url, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

code=$(code_file "${2-}" wasm)
program=$("$baselines/wasmtime-serve/install.sh" --installed) || die "it is not installed: scripts/baselines/wasmtime-serve/install.sh"
begin "$1"
port=$(free_port)
run "$program" serve --addr "127.0.0.1:$port" "$code"
ready accepts "$port"
say "url=http://127.0.0.1:$port/" "version=$("$program" --version)"
