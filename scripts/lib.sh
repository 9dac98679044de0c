# shellcheck shell=bash
# What the scripts of this repository share. Source it; it changes no setting of the caller.

have() { command -v "$1" > /dev/null 2>&1; }
note() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# What a set-up of this repository put under the home directory and a login shell may not know yet. rustup's cargo comes
# first, because a distribution's own does not read rust-toolchain.toml.
flint_tools=${XDG_CACHE_HOME:-$HOME/.cache}/flint-tools
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:$flint_tools/bin

# Where cargo puts what it builds, whether the environment, a configuration file or nobody says so.
target_dir() {
  cargo metadata --no-deps --format-version 1 --manifest-path "$1/Cargo.toml" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'
}

# What a profile (scripts/profile) depends on, in a few letters: the compiler and the dependencies, after which functions are named in a binary.
profile_key() { { rustc -vV; cat Cargo.lock; sed -n '/^\[profile.release/,$p' Cargo.toml; } | sha256sum | cut -c1-16; }
