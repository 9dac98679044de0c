#!/usr/bin/env bash
# Builds the sample functions: npm packages, a Python virtual environment, Java jars.
# Does only what is out of date: a second run takes a moment.
#
#   functions/samples/build.sh [SAMPLE…]      default: all of them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf '  %s\n' "$*"; }
die() { printf 'functions/samples/build.sh: %s\n' "$*" >&2; exit 1; }

# up_to_date STAMP SOURCE…: STAMP exists and holds what `fingerprint SOURCE…` says.
fingerprint() { cat -- "$@" | sha256sum | cut -d' ' -f1; }
up_to_date() { local stamp=$1; shift; [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint "$@")" ]; }
built() { local stamp=$1; shift; fingerprint "$@" > "$stamp"; }

build_resize_node() (
  cd resize-node
  up_to_date node_modules/.built package.json package-lock.json && return
  say 'resize-node: npm packages'
  npm ci --omit=dev --no-audit --no-fund --loglevel=error
  built node_modules/.built package.json package-lock.json
)

build_resize_python() (
  cd resize-python
  python=${FLINT_PYTHON:-python3}
  # The compiled part of Pillow belongs to one Python version, so that version is part of the fingerprint.
  version=$(mktemp)
  trap 'rm -f "$version"' EXIT
  "$python" -c 'import sys; print(sys.implementation.cache_tag)' > "$version"
  up_to_date virtualenv/.built requirements.txt "$version" && return
  say 'resize-python: virtual environment with Pillow'
  rm -rf virtualenv
  "$python" -m venv virtualenv || die "$python cannot make a virtual environment; run ./bootstrap.sh"
  virtualenv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r requirements.txt
  virtualenv/bin/python -m pip uninstall --quiet --yes --disable-pip-version-check setuptools pip 2>/dev/null || true
  built virtualenv/.built requirements.txt "$version"
)

# The classes that a Java function may import (flint.Response, flint.Context). Flint brings them; this copy is for javac.
runtime_jar=build/flint-runtime.jar
build_java_runtime() {
  local sources
  mapfile -t sources < <(find ../../runtimes/java/build.sh ../../runtimes/java/src -name '*.*' -type f | sort)
  up_to_date build/.built "${sources[@]}" && return
  ../../runtimes/java/build.sh build
  built build/.built "${sources[@]}"
}

# build_java SAMPLE JAR
build_java() (
  build_java_runtime
  cd "$1"
  jar=$2
  [ -f "$jar" ] && up_to_date build/.built ./*.java "../$runtime_jar" && return
  say "$1: $jar"
  rm -rf build
  mkdir -p build/classes
  javac --release 17 -Xlint:all,-options -Werror -cp "../$runtime_jar" -d build/classes ./*.java
  jar --create --file "$jar" -C build/classes .
  built build/.built ./*.java "../$runtime_jar"
)

build_one() {
  case $1 in
    resize-node) build_resize_node ;;
    resize-python) build_resize_python ;;
    resize-java) build_java resize-java resize.jar ;;
    hello-java) build_java hello-java hello.jar ;;
    hello-node | hello-python | cat) ;; # nothing to build
    *) die "no such sample: $1" ;;
  esac
}

[ $# -gt 0 ] || set -- resize-node resize-python hello-java resize-java
for sample in "$@"; do build_one "$sample"; done
