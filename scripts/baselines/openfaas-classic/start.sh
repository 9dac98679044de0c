#!/usr/bin/env bash
# OpenFaaS' classic watchdog: one warm container with a process for each call. Needs root.
#
#   start.sh DATA_DIR FILE.js|FILE.py|DIRECTORY      prints url, runtime, version, pid
#
# The watchdog is reimplemented in Python, since no package registry has the original. Its own cost per call
# is that of a Python server, not of a Go one.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../openwhisk/pool.sh"
start_pool "$baselines/container/install.sh" "$1" "${2-}" --shared
