#!/bin/sh
# Builds the native helper: build.sh OUTPUT. Needs a C compiler (CC, else cc) and nothing of Node.js.
# OUTPUT goes beside the shim as native/zygote.node.
# -z now: a clone must not spend its first moments looking up symbols.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -Wl,-z,now -o "$1" "$here/zygote.c" "$here/arena.c" "$here/code.c" "$here/../../native/cloning.c"
