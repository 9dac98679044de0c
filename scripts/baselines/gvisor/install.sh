#!/usr/bin/env bash
# Builds gVisor's runsc (Apache-2.0) from the Go module proxy into the cache, unless runsc is on PATH or there, and prints its path.
# That takes ten minutes of two cores.
#
#   install.sh [--installed]      with --installed it only checks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

version=v0.0.0-20260701204157-69c2d17aea96
program=$cache/gvisor-$version/runsc
if have runsc; then
  program=$(command -v runsc)
elif [ ! -x "$program" ]; then
  [ "${1-}" != --installed ] || exit 1
  have go || die "there is no Go toolchain: apt-get install golang"
  folder=$(mktemp -d)
  trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
  GOBIN=$folder GOPATH=$folder/path GOFLAGS=-modcacherw CGO_ENABLED=0 go install -trimpath -ldflags='-s -w' "gvisor.dev/gvisor/runsc@$version" >&2
  mkdir -p "$cache/gvisor-$version"
  mv "$folder/runsc" "$program.new"
  mv "$program.new" "$program"
fi
echo "$program"
