# shellcheck shell=bash
# Functions shared by the baselines with pooled containers. Source it from scripts/baselines/NAME.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# start_pool INSTALL DATA_DIR FILE|DIRECTORY [OPTION…]: prints url, runtime, version, pid.
start_pool() {
  local install=$1 file=${3-} program code port
  [ "$(id -u)" = 0 ] || die "containers cannot run here: making them needs root"
  program=$("$install" --installed) || die "it is not installed: ${install#"$baselines/../../"}"
  if [ -d "$file" ]; then
    # Must be a package of Node.js; the interpreter of a Python virtual environment would be missing in the
    # container.
    [ -e "$file/index.js" ] || [ -e "$file/package.json" ] || die "$file is no package of Node.js, and this baseline runs no other directory"
    code=$(realpath "$file")
  else
    case $file in
      *.js) code=$(code_file "$file" js) ;;
      *) code=$(code_file "$file" py) ;;
    esac
  fi
  begin "$2"
  # Written before anything runs, for a start that is interrupted.
  echo "runtime=$program" > "$data/env"
  port=$(free_port)
  cp -r "$code" "$data/"
  python3 "$baselines/container/bundle.py" "$data" "$(basename "$code")"
  # Finds out now, rather than at the first call, whether containers can be created at all.
  python3 "$baselines/container/bundle.py" --probe "$data"
  # shellcheck disable=SC2046
  "$program" --root "$data/state" $(runtime_options "$program") run --bundle "$data/probe" "flint-baseline-probe-$$" > "$data/log" 2>&1 ||
    die "containers cannot run here: $(tail -n 1 "$data/log")"
  run python3 "$baselines/openwhisk/pool.py" "$data" "$program" "$port" "$(basename "$code")" "${@:4}"
  ready accepts "$port"
  say "url=http://127.0.0.1:$port/" "runtime=$program" "version=$(version "$program" --version)"
}

# runtime_options PROGRAM: gVisor creates no cgroups of its own here, and needs a folder for a container's
# sockets.
runtime_options() {
  [ "$(basename "$1")" != runsc ] || echo --network=none --ignore-cgroups --platform=systrap --host-uds=all
}

# stop_pool DATA_DIR: stops the server first, so that it creates no more containers; then the remaining ones.
stop_pool() {
  local program
  [ -d "${1:?usage: stop.sh DATA_DIR}" ] || die "there is no $1"
  [ -f "$1/env" ] || { stop "$1"; return; }
  program=$(value runtime "$1/env")
  stop_by_pid "$1"
  for id in $("$program" --root "$1/state" list --quiet); do
    "$program" --root "$1/state" delete --force "$id" || printf "container %s could not be deleted\n" "$id" >&2
  done
  [ ! -f "$1/pid" ] || remove_groups "$(cat "$1/pid")"
  stop "$1"
}

# remove_groups PID: removes cgroups of containers whose creation was interrupted, which are in no list.
remove_groups() {
  local group
  find /sys/fs/cgroup -depth -type d -name "flint-baseline-$1-*" 2> /dev/null | while read -r group; do
    xargs --no-run-if-empty kill -KILL < "$group/cgroup.procs" 2> /dev/null || true
    for _ in {1..50}; do
      ! rmdir "$group" 2> /dev/null || break
      sleep 0.1
    done
  done
}
