#!/usr/bin/env bash
# Containers as OpenWhisk's invoker uses them: runc makes one, the language's runtime starts in it and listens, /init gives it the code,
# /run the calls, one after the other; idle ones go after KEEP_ALIVE_MS (ten minutes). Needs root.
#
#   [KEEP_ALIVE_MS=…] start.sh DATA_DIR FILE.js|FILE.py|DIRECTORY      says url, runtime, version, pid
#
# It is the least that this costs: no gateway, no controller, no Kafka, no image, no overlay, no network but loopback, no prewarmed ones.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/pool.sh"
start_pool "$baselines/container/install.sh" "$1" "${2-}" --keep-alive "${KEEP_ALIVE_MS:-600000}"
