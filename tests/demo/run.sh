#!/usr/bin/env bash
# The demonstration of the README, checked: deploys the samples, makes thumbnails in three languages, stops.
exec "$(dirname "${BASH_SOURCE[0]}")/../../scripts/demo.sh"
