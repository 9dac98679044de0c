#!/usr/bin/env bash
# Builds wasmtime (crates.io, Apache-2.0) into the cache, unless it is on PATH or there, and prints its path. That takes half an hour of
# two cores.
#
#   install.sh [--installed]      with --installed it only checks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# The same version as Flint's library.
version=48.0.8
program=$cache/wasmtime-$version/bin/wasmtime
if have wasmtime; then
  program=$(command -v wasmtime)
elif [ ! -x "$program" ]; then
  [ "${1-}" != --installed ] || exit 1
  have cargo || die "there is no cargo: run ./bootstrap.sh"
  # A separate target directory: this one is built with other features than Flint.
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  CARGO_TARGET_DIR=$build cargo install --quiet --locked --root "$cache/wasmtime-$version" "wasmtime-cli@$version" >&2
fi
echo "$program"
