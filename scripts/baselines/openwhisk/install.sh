#!/usr/bin/env bash
# runc, as the baseline container has it.
#
#   install.sh [--installed]      with --installed it only looks
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../container/install.sh" "$@"
