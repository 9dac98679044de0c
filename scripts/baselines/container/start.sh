#!/usr/bin/env bash
# A container for every call, as a platform on containers has it when no warm one is left: runc (or runsc) makes the container, the
# language's runtime starts in it, loads the function, answers once. Needs root.
#
#   [CONTAINER_RUNTIME=runsc] start.sh DATA_DIR FILE.js|FILE.py      says url, runtime, version, pid
#
# It is the least that a container costs: no daemon, no image to unpack, no overlay, no network but loopback, no HTTP server inside.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[ "$(id -u)" = 0 ] || die "containers cannot run here: making them needs root"
program=$("$baselines/container/install.sh" --installed) || die "the baseline container is not installed: scripts/baselines/container/install.sh"
case ${2-} in
  *.js) code=$(code_file "$2" js) ;;
  *) code=$(code_file "${2-}" py) ;;
esac
begin "$1"
# Said before anything runs, for a start that is cut short.
echo "runtime=$program" > "$data/env"
port=$(free_port)
cp "$code" "$data/"
python3 "$baselines/container/bundle.py" "$data" "$(basename "$code")"
# Whether containers can be made at all is better known now than at the first call.
python3 "$baselines/container/bundle.py" --probe "$data"
"$program" --root "$data/state" run --bundle "$data/probe" "flint-baseline-probe-$$" > "$data/log" 2>&1 ||
  die "containers cannot run here: $(tail -n 1 "$data/log")"
run python3 "$baselines/container/serve.py" "$data" "$program" "$port"
ready accepts "$port"
say "url=http://127.0.0.1:$port/" "runtime=$program" "version=$(version "$program" --version)"
