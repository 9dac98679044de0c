#!/usr/bin/env bash
# The template engines of both variants.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../../clients/npm.sh nodejs
../../clients/virtualenv.sh python
