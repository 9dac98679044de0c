#!/usr/bin/env bash
# Compiles the Java sources of FOLDER into CLASSES, if they are out of date. They need no package but the JDK's.
#
#   functions/clients/java.sh FOLDER CLASSES
set -euo pipefail
command -v javac > /dev/null || { echo "there is no javac: apt-get install default-jdk-headless" >&2; exit 1; }
print=$(cat "$1"/*.java | sha256sum)
[ "$(cat "$2/.built" 2> /dev/null)" != "$print" ] || exit 0
rm -rf "$2"
mkdir -p "$2"
javac --release 17 -Xlint:all,-options -Werror -d "$2" "$1"/*.java
echo "$print" > "$2/.built"
