#!/usr/bin/env bash
# Builds Versity S3 Gateway from the Go module proxy into the cache, unless it is there, and prints its path.
#
#   install.sh [--installed]      with --installed it only checks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

version=v1.8.0
program=$cache/bin/versitygw-$version
if [ ! -x "$program" ]; then
  [ "${1-}" != --installed ] || exit 1
  have go || die "there is no Go toolchain: apt-get install golang"
  folder=$(mktemp -d)
  trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
  GOBIN=$folder GOPATH=$folder/path GOFLAGS=-modcacherw CGO_ENABLED=0 go install -trimpath "github.com/versity/versitygw/cmd/versitygw@$version" >&2
  mkdir -p "$cache/bin"
  mv "$folder/versitygw" "$program.new"
  mv "$program.new" "$program"
fi
echo "$program"
