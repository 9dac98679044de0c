#!/usr/bin/env bash
# The virtual environment with the static ffmpeg, the Java classes with the same program beside them, and the clients of the store.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
../../clients/copy.sh python/s3.py java/S3.java
../../clients/virtualenv.sh python
../../clients/java.sh java build/java
[ -x build/java/ffmpeg ] || install -m 755 python/virtualenv/lib/python*/site-packages/imageio_ffmpeg/binaries/ffmpeg-linux-* build/java/ffmpeg
