#!/usr/bin/env bash
# Pillow, and the client of the store.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../../clients/copy.sh python/s3.py
../../clients/virtualenv.sh python
