#!/usr/bin/env bash
# The PNG codec for Node.js, the Java classes, and the input picture.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../../clients/npm.sh nodejs
../../clients/java.sh java build/java
[ build/input.png -nt make-input.js ] || node make-input.js
