#!/bin/sh
# Builds the native helper: build.sh OUTPUT. Needs a C compiler (CC, else cc) and nothing of Python.
# OUTPUT goes beside the shim as native/zygote.so.
# -z now: resolves symbols at load time, so that clones need not do so after each fork.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -Wl,-z,now -o "$1" "$here/zygote.c" "$here/../../native/cloning.c"
