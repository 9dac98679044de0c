#!/usr/bin/env bash
# Functions that attack: what they must not reach, use up or leave behind. Against an optimised binary (FLINT_BIN).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
PYTHONPATH=../harness exec python3 -m unittest -v test_containment test_contracts test_calls test_zygotes test_gate test_egress
