#!/usr/bin/env bash
# Containers as used by OpenWhisk's invoker: runc creates one, the language's runtime starts in it and
# listens, /init passes the code and /run the calls, one after the other; idle ones are removed after
# KEEP_ALIVE_MS (ten minutes). Needs root.
#
#   [KEEP_ALIVE_MS=…] start.sh DATA_DIR FILE.js|FILE.py|DIRECTORY      prints url, runtime, version, pid
#
# The minimal cost of this: no gateway, no controller, no Kafka, no image, no overlay, no network but
# loopback, no prewarmed containers.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/pool.sh"
start_pool "$baselines/container/install.sh" "$1" "${2-}" --keep-alive "${KEEP_ALIVE_MS:-600000}"
