#!/usr/bin/env bash
# kill -9 of the server, and of what it runs functions in, under load, again and again: every 202 is run and recorded, nothing is left behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
PYTHONPATH=../harness exec python3 -m unittest -v test_crash test_crash_forks test_crash_compositions test_crash_triggers test_crash_retries test_crash_feeds test_crash_wasm test_crash_messages
