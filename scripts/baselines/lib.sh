# shellcheck shell=bash
# Functions shared by the baselines' scripts, besides those shared with the back ends. Source it from
# scripts/baselines/NAME.

. "$(dirname "${BASH_SOURCE[0]}")/../backends/lib.sh"
baselines=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# install_npm NAME [--installed]: installs the packages of NAME/package-lock.json in the cache; prints the
# folder.
install_npm() {
  local print folder new
  print=$(cat "$baselines/$1"/package*.json | sha256sum | cut -c 1-12)
  folder=$cache/$1-$print
  if [ ! -d "$folder" ]; then
    [ "${2-}" != --installed ] || return 1
    have npm || die "there is no npm: apt-get install nodejs npm"
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/$1.XXXXXX")
    cp "$baselines/$1"/package*.json "$new"
    (cd "$new" && npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error >&2) || { rm -rf "$new"; return 1; }
    mv -T "$new" "$folder" 2> /dev/null || rm -rf "$new"
  fi
  echo "$folder"
}

# code_file FILE EXTENSION: its absolute path.
code_file() {
  [ -f "${1-}" ] || die "usage: start.sh DATA_DIR FILE, a function in a file of its own"
  [ "${1##*.}" = "$2" ] || die "$1 is not a .$2 file, and this baseline runs no other"
  realpath "$1"
}
