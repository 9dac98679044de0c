#!/usr/bin/env bash
# Installs the npm packages of the lock file beside this script into the cache, unless they are there, and says where they are.
#
#   install.sh [--installed]      with --installed it only looks
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
install_npm workerd "$@"
