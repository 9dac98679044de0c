#!/usr/bin/env bash
# Builds the release binary and prints the path of the binary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

have cargo || die "there is no cargo: run ./bootstrap.sh first"
have javac || die "there is no JDK: run ./bootstrap.sh first"
cargo build --release --package flint --bin flint >&2
echo "$(target_dir .)/release/flint"
