#!/usr/bin/env bash
# Takes the profile for scripts/build.sh, which tells the compiler how often code runs: builds an instrumented
# binary, runs two benchmarks with it and writes scripts/profile/flint.profdata.xz. Takes some twenty minutes
# on two cores. Worthwhile after a change of code that every call runs: code that has changed since is
# compiled as if there were no profile. Needed after a change of the compiler or of Cargo.lock, which changes
# the names of functions in a binary: until then scripts/build.sh warns and builds without a profile.
#
# Needs llvm-profdata of rustc's LLVM version (rustc -vV): Debian's package llvm-N, or rustup's component
# llvm-tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# Functions that never ran and have fewer parts are left out.
parts=24

llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
profdata=
for candidate in "llvm-profdata-$llvm" "/usr/lib/llvm-$llvm/bin/llvm-profdata" \
  "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/llvm-profdata"; do
  if have "$candidate"; then profdata=$candidate; break; fi
done
[ -n "$profdata" ] || die "there is no llvm-profdata of LLVM $llvm: apt-get install llvm-$llvm, or rustup component add llvm-tools"

# They would take precedence.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
# Separate from ordinary builds, which would have to be repeated otherwise.
CARGO_TARGET_DIR=$(target_dir .)/counting
export CARGO_TARGET_DIR
counts=$CARGO_TARGET_DIR/counts
trap 'rm -rf "$counts"' EXIT
note "building a binary that counts"
cargo build --locked --release --package flint --bin flint --config "build.rustflags=['-Cprofile-generate=$counts']"
# Programs that cargo ran for the build were instrumented too.
rm -rf "$counts"
for experiment in overhead wasm; do
  note "flint bench $experiment --quick"
  "$CARGO_TARGET_DIR/release/flint" bench "$experiment" --quick > /dev/null
done
"$profdata" merge --text --output "$counts/all.proftext" "$counts"/*.profraw
python3 scripts/profile/trim.py "$parts" < "$counts/all.proftext" > "$counts/flint.proftext"
"$profdata" merge --output "$counts/flint.profdata" "$counts/flint.proftext"
xz -9 "$counts/flint.profdata"
mv "$counts/flint.profdata.xz" scripts/profile/flint.profdata.xz
profile_key > scripts/profile/taken-for
note "written: $(du -h scripts/profile/flint.profdata.xz | cut -f1), $(grep -c '^# Func Hash' "$counts/flint.proftext") functions"
