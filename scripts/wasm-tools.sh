#!/usr/bin/env bash
# Installs the tools for JavaScript and Python in WebAssembly, componentize-qjs with esbuild (npm) and
# componentize-py (PyPI), unless they are installed, and prints the folder to put on PATH, in
# ~/.cache/flint-wasm.
#
#   scripts/wasm-tools.sh [--installed]      with --installed it only checks
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

folder=${XDG_CACHE_HOME:-$HOME/.cache}/flint-wasm
qjs=componentize-qjs@0.4.5
esbuild=esbuild@0.25.12
py=componentize-py==0.25.1

# installed DIRECTORY PACKAGE
installed() { [ "$(cat "$1/.installed" 2> /dev/null)" = "$2" ]; }

# npm_tool DIRECTORY PACKAGE
npm_tool() {
  installed "$@" && return
  rm -rf "$1"
  mkdir -p "$1"
  npm install --prefix "$1" --no-audit --no-fund --loglevel=error "$2" > "$folder/npm.log" 2>&1 ||
    { tail -n 5 "$folder/npm.log" >&2; die "npm could not install $2, which puts JavaScript into WebAssembly"; }
  echo "$2" > "$1/.installed"
}

# venv DIRECTORY PACKAGE
venv() {
  installed "$@" && return
  rm -rf "$1"
  { python3 -m venv "$1" && "$1/bin/python" -m pip install --quiet --disable-pip-version-check "$2"; } > "$folder/pip.log" 2>&1 ||
    { tail -n 5 "$folder/pip.log" >&2; die "pip could not install $2, which puts Python into WebAssembly"; }
  echo "$2" > "$1/.installed"
}

if [ "${1-}" = --installed ]; then
  installed "$folder/js" "$qjs" && installed "$folder/esbuild" "$esbuild" && installed "$folder/py" "$py" || exit 1
else
  mkdir -p "$folder/bin"
  # One at a time, if several processes want them.
  exec {turn}< scripts/wasm-tools.sh
  flock "$turn"
  npm_tool "$folder/js" "$qjs"
  npm_tool "$folder/esbuild" "$esbuild"
  venv "$folder/py" "$py"
  ln -sf "$folder/js/node_modules/.bin/componentize-qjs" "$folder/bin/componentize-qjs"
  ln -sf "$folder/esbuild/node_modules/.bin/esbuild" "$folder/bin/esbuild"
  # Not the environment's whole bin/: its python3 is not the functions' one.
  ln -sf "$folder/py/bin/componentize-py" "$folder/bin/componentize-py"
fi
echo "$folder/bin"
