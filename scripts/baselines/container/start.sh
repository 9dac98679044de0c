#!/usr/bin/env bash
# A container for every call, as on a container platform without a warm one: runc (or runsc) creates the
# container, the language's runtime starts in it, loads the function and answers once. Needs root.
#
#   [CONTAINER_RUNTIME=runsc] start.sh DATA_DIR FILE.js|FILE.py      prints url, runtime, version, pid
#
# The minimal cost of a container: no daemon, no image to unpack, no overlay, no network but loopback, no HTTP
# server inside.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[ "$(id -u)" = 0 ] || die "containers cannot run here: making them needs root"
program=$("$baselines/container/install.sh" --installed) || die "the baseline container is not installed: scripts/baselines/container/install.sh"
case ${2-} in
  *.js) code=$(code_file "$2" js) ;;
  *) code=$(code_file "${2-}" py) ;;
esac
begin "$1"
# Written before anything runs, for a start that is interrupted.
echo "runtime=$program" > "$data/env"
port=$(free_port)
cp "$code" "$data/"
python3 "$baselines/container/bundle.py" "$data" "$(basename "$code")"
# Finds out now, rather than at the first call, whether containers can be created at all.
python3 "$baselines/container/bundle.py" --probe "$data"
"$program" --root "$data/state" run --bundle "$data/probe" "flint-baseline-probe-$$" > "$data/log" 2>&1 ||
  die "containers cannot run here: $(tail -n 1 "$data/log")"
run python3 "$baselines/container/serve.py" "$data" "$program" "$port"
ready accepts "$port"
say "url=http://127.0.0.1:$port/" "runtime=$program" "version=$(version "$program" --version)"
