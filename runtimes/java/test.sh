#!/bin/sh
# Tests the shim with the JDK in JAVA_HOME (or on PATH): test.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bin=${JAVA_HOME:+$JAVA_HOME/bin/}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$here/build.sh" "$out"
"${bin}javac" -encoding UTF-8 -cp "$out/flint-runtime.jar" -d "$out/tests" "$here"/test/flint/*.java
LC_ALL=C.UTF-8 "${bin}java" --add-opens java.base/java.io=ALL-UNNAMED --add-opens java.base/java.util=ALL-UNNAMED \
    -Djava.io.tmpdir="$out" -cp "$out/flint-runtime.jar:$out/tests" flint.Tests "$here/../link-vectors.json"
