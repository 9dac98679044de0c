#!/usr/bin/env bash
# Installs all baselines and the experiments' other tools; what is unavailable is reported, and left out by
# the experiments with its reason. gVisor, wasmtime and the S3 store take long to build: FLINT_BENCH_ALL=1
# builds them too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

long=()
[ -z "${FLINT_BENCH_ALL-}" ] || long=(scripts/baselines/{gvisor,wasmtime-serve} scripts/backends/s3)
for folder in scripts/baselines/{container,functions-framework-node,functions-framework-python,workerd} scripts/backends/couchdb "${long[@]}"; do
  "$folder/install.sh" > /dev/null || warn "$folder could not be installed"
done
scripts/wasm-tools.sh > /dev/null || warn "scripts/wasm-tools.sh failed: there is no WebAssembly of JavaScript and Python"
