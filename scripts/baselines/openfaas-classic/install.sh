#!/usr/bin/env bash
# Installs runc, as for the baseline `container`.
#
#   install.sh [--installed]      with --installed it only checks
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../container/install.sh" "$@"
