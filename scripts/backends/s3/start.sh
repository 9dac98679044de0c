#!/usr/bin/env bash
# An S3 store: Versity S3 Gateway (Go module, Apache-2.0) over files in DATA_DIR. install.sh builds it, once.
#
#   start.sh DATA_DIR [--network NETWORK_DIR]      prints url, bucket, region, access_key, secret_key, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

program=$("$here/s3/install.sh" --installed) || die "the S3 store is not installed: scripts/backends/s3/install.sh (some minutes)"
begin "$@"
port=$(free_port)
access_key=flint
secret_key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
mkdir "$data/objects"
ROOT_ACCESS_KEY=$access_key ROOT_SECRET_KEY=$secret_key run "$program" --quiet --keep-alive --port "$address:$port" --region us-east-1 posix "$data/objects"
ready accepts "$port"
say "url=http://$address:$port" bucket=flint region=us-east-1 "access_key=$access_key" "secret_key=$secret_key" \
  "version=$(version "$program" --version)"
