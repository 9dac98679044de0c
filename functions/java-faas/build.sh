#!/usr/bin/env bash
# Compiles the six programs to build/NAME.wasm, if they are out of date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for tool in mvn javac; do
  command -v "$tool" > /dev/null || {
    echo "functions/java-faas/build.sh: there is no $tool; on Debian and Ubuntu: apt-get install maven default-jdk-headless" >&2
    exit 1
  }
done
print=$(cat pom.xml src/main/java/*.java | sha256sum)
[ "$(cat build/.built 2> /dev/null)" != "$print" ] || exit 0
rm -rf build target
mvn -q -B -ntp -Dstyle.color=never process-classes
mkdir build
cp target/wasm/*.wasm build/
echo "$print" > build/.built
