#!/bin/sh
# Builds OUTDIR/flint-runtime.jar with nothing but a JDK (17 or newer): build.sh OUTDIR
# The same sources and the same JDK give the same bytes: fixed times, sorted entries.
set -eu
out=${1:?usage: build.sh OUTDIR}
here=$(cd "$(dirname "$0")" && pwd)
bin=${JAVA_HOME:+$JAVA_HOME/bin/}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# String concatenation by StringBuilder: the invokedynamic form would load dozens of classes at start-up.
# -Xlint:-options: newer JDKs warn that release 17 is obsolete.
"${bin}javac" --release 17 -XDstringConcat=inline -g:source,lines -Xlint:all,-options,-serial -d "$work" "$here"/src/flint/*.java
(cd "$work" && find flint -name '*.class' | LC_ALL=C sort > classes)
(cd "$work" && "${bin}jar" --create --file "$work/runtime.jar" --no-compress --date=2020-01-01T00:00:00Z --main-class flint.Shim @classes)
mv "$work/runtime.jar" "$out/flint-runtime.jar"
