#!/usr/bin/env bash
# What OpenFaaS' classic watchdog does: one warm container, and in it a process of its own for each call. Needs root.
#
#   start.sh DATA_DIR FILE.js|FILE.py|DIRECTORY      says url, runtime, version, pid
#
# The watchdog is written anew, in Python: the original is in no registry in reach. What it costs a call by itself is a Python server's, not a Go one's.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../openwhisk/pool.sh"
start_pool "$baselines/container/install.sh" "$1" "${2-}" --shared
