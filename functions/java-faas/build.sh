#!/usr/bin/env bash
# Makes of each of the six programs, if they are out of date: build/NAME.wasm (TeaVM), build/jvm-NAME (a JVM for each call) and
# build/server-NAME (a JVM that stays).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for tool in mvn javac; do
  command -v "$tool" > /dev/null || {
    echo "functions/java-faas/build.sh: there is no $tool; on Debian and Ubuntu: apt-get install maven default-jdk-headless" >&2
    exit 1
  }
done
# One at a time, where several tests need them.
exec {turn}< build.sh
flock "$turn"
stdin=../tools/jvm/Stdin.java
print=$(cat build.sh pom.xml src/main/java/*.java src/jvm/*.java "$stdin" | sha256sum)
[ "$(cat build/.built 2> /dev/null)" != "$print" ] || exit 0
rm -rf build target
mvn -q -B -ntp -Dstyle.color=never process-classes
mkdir -p build/classes
cp target/wasm/*.wasm build/
# Standard input of TeaVM's is not that of a JVM.
programs=()
for source in src/main/java/*.java; do [ "$source" = src/main/java/Stdin.java ] || programs+=("$source"); done
javac --release 17 -d build/classes "${programs[@]}" src/jvm/Server.java "$stdin"

# program FOLDER ARGUMENTS…: a function that runs java
program() {
  mkdir "build/$1"
  cp build/classes/*.class "build/$1/"
  # Shared classes and one collector's thread: what a program of milliseconds is started with. The server answers without waiting for acknowledgements.
  printf '#!/bin/sh\nexec java -Xshare:auto -Dsun.net.httpserver.nodelay=true -XX:+UseSerialGC -XX:TieredStopAtLevel=%s -cp "${0%%/*}" %s\n' "$2" "$3" > "build/$1/exec"
  chmod +x "build/$1/exec"
}
for class in Hello Mandelbrot NBody PiDigits Simple SpectralNorm; do
  program "jvm-${class,,}" 1 "$class"
  program "server-${class,,}" 4 "Server $class"
done
rm -r build/classes
echo "$print" > build/.built
