#!/usr/bin/env bash
# Fetches Debian's runc into the cache, unless runc is installed or there, and prints its path. With CONTAINER_RUNTIME=runsc it is
# gVisor's runsc: see gvisor/install.sh.
#
#   install.sh [--installed]      with --installed it only checks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

runtime=${CONTAINER_RUNTIME:-runc}
if have "$runtime"; then
  command -v "$runtime"
  exit
fi
[ "$runtime" = runc ] || exec "$baselines/gvisor/install.sh" "$@"
program=$cache/runc/usr/sbin/runc
if [ ! -x "$program" ]; then
  [ "${1-}" != --installed ] || exit 1
  have apt-get && have dpkg || die "runc is not installed, and this is no Debian to fetch it from"
  mkdir -p "$cache"
  new=$(mktemp -d "$cache/runc.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  (cd "$new" && apt-get -o APT::Sandbox::User=root download runc >&2) || die "apt-get download runc failed: run apt-get update once"
  dpkg -x "$new"/runc_*.deb "$new/files"
  rm -rf "$cache/runc"
  mv "$new/files" "$cache/runc"
fi
echo "$program"
