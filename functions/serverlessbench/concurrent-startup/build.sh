#!/usr/bin/env bash
# Compiles the C program, if it is out of date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ build/hello -nt hello.c ] && exit 0
mkdir -p build
cc -O2 -Wall -Wextra -Werror -static -o build/hello hello.c
