#!/usr/bin/env bash
# The clients of the store, and the Java classes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../../clients/copy.sh python/s3.py nodejs/s3.js java/S3.java
../../clients/java.sh java build/java
