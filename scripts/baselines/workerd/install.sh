#!/usr/bin/env bash
# Installs the npm packages of the lock file beside this script into the cache, unless they are there, and prints their folder.
#
#   install.sh [--installed]      with --installed it only checks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
install_npm workerd "$@"
