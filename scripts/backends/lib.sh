# shellcheck shell=bash
# Functions shared by the back ends' scripts. A back end is started by
#
#   NAME/start.sh DATA_DIR [--network NETWORK_DIR]
#
# and stopped by NAME/stop.sh DATA_DIR. It listens on a free port of 127.0.0.1 or, with --network, at the
# address of the network that network/start.sh created in NETWORK_DIR. Its standard output, KEY=VALUE per
# line, is kept in DATA_DIR/env; the log is DATA_DIR/log. Everything is in DATA_DIR, which must not exist yet;
# stop.sh removes it.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${FLINT_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flint-bench}
ready_within_s=${FLINT_BACKEND_READY_S:-120}

die() { printf '%s\n' "$*" >&2; exit 1; }
have() { command -v "$1" > /dev/null 2>&1; }

# begin DATA_DIR [--network NETWORK_DIR]: sets data, address and inside (the command prefix for running in the
# network).
begin() {
  [ $# -ge 1 ] || die "usage: start.sh DATA_DIR [--network NETWORK_DIR]"
  [ ! -e "$1" ] || die "$1 exists already"
  address=127.0.0.1
  inside=()
  if [ "${2-}" = --network ]; then
    network=${3:?--network needs the folder of network/start.sh}
    address=$(value address "$network/env") || die "there is no network in $network"
    inside=(nsenter "--net=$(value namespace "$network/env")")
  fi
  mkdir -p "$1"
  data=$(cd "$1" && pwd)
  trap 'status=$?; [ $status -eq 0 ] || { tail -n 20 "$data/log" >&2 || true; stop_by_pid "$data"; rm -rf "$data"; }; exit $status' EXIT
}

# value KEY FILE
value() { sed -n "s/^$1=//p" "$2"; }

# A free port, in the network of the back end.
free_port() {
  "${inside[@]}" python3 -c 'import socket, sys; s = socket.socket(); s.bind((sys.argv[1], 0)); print(s.getsockname()[1])' "$address"
}

# run COMMAND…: in the background, in a session of its own, with its output in the log.
run() {
  setsid "${inside[@]}" "$@" > "$data/log" 2>&1 < /dev/null &
  echo $! > "$data/pid"
}

# ready COMMAND…: waits until it succeeds, as long as the started process lives.
ready() {
  local until=$((SECONDS + ready_within_s))
  until "$@" > /dev/null 2>&1; do
    kill -0 "$(cat "$data/pid")" 2> /dev/null || die "it ended while it started; its log is above"
    [ $SECONDS -lt $until ] || die "it was not ready within $ready_within_s s"
    sleep 0.1
  done
}

accepts() { "${inside[@]}" python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)' "$address" "$1"; }

# version COMMAND…: the first line of a program's version output, if any.
version() { "$@" 2> /dev/null | head -n 1 || true; }

# package FOLDER: name and version of an npm package.
package() { node -p 'const { name, version } = require(process.argv[1]); `${name} ${version}`' "$1/package.json" 2> /dev/null || true; }

# say KEY=VALUE…
say() {
  (umask 077 && : > "$data/env")
  printf '%s\n' "$@" "pid=$(cat "$data/pid")" | tee "$data/env"
}

# stop_by_pid DATA_DIR: asks the process to end, and kills it otherwise.
stop_by_pid() {
  local pid count=0
  pid=$(cat "$1/pid" 2> /dev/null) || return 0
  kill -TERM "$pid" 2> /dev/null || return 0
  while kill -0 "$pid" 2> /dev/null && ! grep -q '^State:.Z' "/proc/$pid/status" 2> /dev/null; do
    count=$((count + 1))
    [ $count -lt 200 ] || kill -KILL "$pid" 2> /dev/null || true
    sleep 0.1
  done
}

# stop DATA_DIR
stop() {
  [ -d "${1:?usage: stop.sh DATA_DIR}" ] || die "there is no $1"
  stop_by_pid "$1"
  rm -rf "$1"
}
