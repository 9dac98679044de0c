#!/usr/bin/env bash
# Runs every fuzz target for a short time; a crash is a failure, and its input stays in
# fuzz/artifacts/TARGET/.
#
#   scripts/fuzz-short.sh [SECONDS]     default: 20 for each target
#
# FLINT_FUZZ_WASM=1 also fuzzes the deploy of WebAssembly, whose compiler takes a quarter of an hour to build
# with coverage. With a nightly toolchain and cargo-fuzz the targets run under AddressSanitizer. Without them
# they are built by the pinned stable compiler, with libFuzzer's coverage but without the sanitizer; the
# output says which.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

seconds=${1:-20}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "SECONDS is a whole number, 1 or more, not '$seconds'"
targets=()
features=(${FLINT_FUZZ_WASM:+--features wasm})
for file in fuzz/fuzz_targets/*.rs; do
  name=$(basename "$file" .rs)
  if [ "$name" = wasm_deploy ] && [ ${#features[@]} -eq 0 ]; then
    note "not fuzzed: wasm_deploy (FLINT_FUZZ_WASM=1 does, after a long build)"
  elif [ -f "$file" ]; then
    targets+=("$name")
  fi
done
[ ${#targets[@]} -gt 0 ] || { note "there are no fuzz targets (fuzz/fuzz_targets/*.rs)"; exit 0; }

sanitized() { have rustup && rustup toolchain list | grep -q ^nightly && have cargo-fuzz; }

if sanitized; then
  how="nightly, AddressSanitizer"
  cargo +nightly fuzz build "${features[@]}"
  run_target() { local target=$1; shift; cargo +nightly fuzz run "${features[@]}" "$target" "${inputs[@]}" -- "$@"; }
else
  how="stable, coverage only: no nightly toolchain with cargo-fuzz here, so no AddressSanitizer"
  host=$(rustc -vV | sed -n 's/^host: //p')
  # cargo-fuzz's flags, without those that need nightly, and without codegen-units=1 and link-dead-code, with
  # which the build takes a fifth longer. An explicit target keeps them away from build scripts and from
  # ordinary builds.
  flags="--cfg fuzzing -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4"
  flags+=" -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table"
  flags+=" -C llvm-args=-sanitizer-coverage-trace-compares -C debug-assertions"
  export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/fuzz/target}/fuzz-stable
  # What is timed, if only by a time-out, comes before it; a fuzz target is timed too, and runs as this script does.
  RUSTFLAGS=$flags nice -n 19 cargo build --release --manifest-path fuzz/Cargo.toml "${features[@]}" --bins --target "$host"
  binaries=$CARGO_TARGET_DIR/$host/release
  run_target() { local target=$1; shift; "$binaries/$target" "${inputs[@]}" "$@"; }
fi

# fuzz TARGET: runs it and reports the result; fails if it found something.
fuzz() {
  local target=$1 corpus=fuzz/corpus/$1 artifacts=fuzz/artifacts/$1 log=$logs/$1
  mkdir -p "$corpus" "$artifacts"
  # Inputs from the repository are read, but never written.
  inputs=("$corpus")
  [ ! -d "fuzz/seeds/$target" ] || inputs+=("fuzz/seeds/$target")
  if run_target "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=60 \
    -artifact_prefix="$artifacts/" -print_final_stats=1 > "$log" 2>&1; then
    note "  $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, nothing found"
  else
    note "  $target: FAILED"$'\n'"$(tail -n 40 "$log")"
    return 1
  fi
}

at_once=$(nproc)
note "fuzzing ${#targets[@]} targets for $seconds s each, $at_once at once ($how)"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
declare -A running=()
failed=()

# Waits for the next target to end.
reap() {
  local pid status=0
  wait -n -p pid "${!running[@]}" || status=$?
  [ "$status" -eq 0 ] || failed+=("${running[$pid]}")
  unset "running[$pid]"
}

for target in "${targets[@]}"; do
  [ ${#running[@]} -lt "$at_once" ] || reap
  fuzz "$target" &
  running[$!]=$target
done
while [ ${#running[@]} -gt 0 ]; do reap; done
[ ${#failed[@]} -eq 0 ] || die "fuzzing found something in: ${failed[*]}; the inputs are in fuzz/artifacts/"
