#!/usr/bin/env bash
# The packages of all variants, as their lock files and the pom have them, and the Java classes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../../clients/npm.sh nodejs
../../clients/virtualenv.sh python
../../clients/maven.sh java
