#!/usr/bin/env bash
# Compiles FOLDER/pom.xml into FOLDER/target/classes, with the jars that it needs in lib/ there, if it is out of date.
#
#   functions/clients/maven.sh FOLDER
set -euo pipefail
for tool in mvn javac; do
  command -v "$tool" > /dev/null || { echo "there is no $tool; on Debian and Ubuntu: apt-get install maven default-jdk-headless" >&2; exit 1; }
done
cd "$1"
print=$(cat pom.xml src/main/java/*.java | sha256sum)
[ "$(cat target/.built 2> /dev/null)" != "$print" ] || exit 0
rm -rf target
mvn ${FLINT_OFFLINE:+--offline} -q -B -ntp -Dstyle.color=never process-classes
echo "$print" > target/.built
