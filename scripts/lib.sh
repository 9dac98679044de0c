# shellcheck shell=bash
# Functions shared by the scripts of this repository. Source it; it changes no setting of the caller.

have() { command -v "$1" > /dev/null 2>&1; }
note() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Tools that this repository's set-up installs under the home directory, and that a login shell may not have
# on PATH yet. rustup's cargo comes first, because a distribution's does not read rust-toolchain.toml.
flint_tools=${XDG_CACHE_HOME:-$HOME/.cache}/flint-tools
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:$flint_tools/bin

# Cargo's target directory: from the environment, its configuration, or the default.
target_dir() {
  cargo metadata --no-deps --format-version 1 --manifest-path "$1/Cargo.toml" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'
}

# A short key of everything that a profile (scripts/profile) depends on: the compiler and the dependencies,
# which determine the names of functions in a binary.
profile_key() { { rustc -vV; cat Cargo.lock; sed -n '/^\[profile.release/,$p' Cargo.toml; } | sha256sum | cut -c1-16; }
