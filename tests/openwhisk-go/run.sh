#!/usr/bin/env bash
# The OpenWhisk API through its own Go library, and projects through wskdeploy, both unmodified, against a real server.
#
#   FLINT_BIN=… tests/openwhisk-go/run.sh [PATTERN]     only tests that match PATTERN, as `go test -run` has it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/lib.sh
. ../../scripts/lib.sh
: "${FLINT_BIN:?names the flint binary, for example FLINT_BIN=\$(scripts/build.sh)}"
FLINT_BIN=$(realpath "$FLINT_BIN")
PATH=$PATH:/usr/local/go/bin
have go || die "there is no Go toolchain: run ./bootstrap.sh"
# go.sum says what every module has to be; what it was built from stays in Go's own caches.
export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local GOWORK=off FLINT_BIN PATH
WSKDEPLOY=$flint_tools/bin/wskdeploy
go build -o "$WSKDEPLOY" github.com/apache/openwhisk-wskdeploy ||
  die "wskdeploy could not be built: this suite needs Go 1.19 or later and its module proxy (GOPROXY is $(go env GOPROXY))"
export WSKDEPLOY
exec go test -count=1 -timeout 10m -v ${1:+-run "$1"} .
