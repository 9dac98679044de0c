#!/usr/bin/env bash
# Runs the tests, stage by stage, all of them even if one fails. `deny` and `functions` run concurrently with
# `runtimes`. What the tests leave of the processors goes to the binary for `e2e`, which is built from the first
# stage after `format` on, and from `cargo` on to `fuzz`. The output of what runs concurrently is shown when it
# ends.
#
#   scripts/test.sh [STAGE…]     default: format clippy runtimes functions deny cargo e2e fuzz
#
#   format    the Rust code is formatted
#   clippy    no warnings, all targets
#   runtimes  the tests of the runtime shims, each in its own language (runtimes/test.sh)
#   functions every workload of functions/ in its interpreter, and whether its oracle rejects wrong answers
#             (functions/test.sh)
#   deny      licences, sources and bans of the dependencies; known advisories if their database is reachable
#   cargo     the unit, property, conformance and integration tests of the workspace (scripts/cargo-tests.py)
#   e2e       every tests/NAME/run.sh against a binary that is optimised as the released one, but not as a whole
#             (scripts/build.sh --fast), one more at once than there are processors, since they mostly wait. A
#             suite gets FLINT_BIN (the binary), starts its own servers on free ports of 127.0.0.1, stops what it
#             started and checks that its servers left nothing behind; remains that belong to no suite are looked
#             for at the end. A suite's output is shown when it ends.
#             E2E="NAME…" runs only those.
#   fuzz      every fuzz target for a short while (scripts/fuzz-short.sh)
#
# and, only if it is asked for, before a release, because its build takes longer than most of the others:
#
#   release   the binary as it is released builds, and passes tests/demo
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

all_stages=(format clippy runtimes functions deny cargo e2e fuzz)
cargo_deny_version=0.20.2
# In CI the lock file is authoritative; locally it may follow a change of a manifest.
locked=(${CI:+--locked})
began=$SECONDS
summary=()
passed=0
failed=0

elapsed() { printf '%d:%02d' $((($1) / 60)) $((($1) % 60)); }
header() { printf '\n=== %s (at %s)\n' "$1" "$(elapsed $((SECONDS - began)))"; }

# record NAME STATUS STARTED
record() {
  local verdict=ok
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else verdict=FAILED failed=$((failed + 1)); fi
  summary+=("$(printf '%-28s %-7s %s' "$1" "$verdict" "$(elapsed $((SECONDS - $3)))")")
}

# aside STAGE: starts a stage concurrently with the next ones, in a process group of its own.
declare -A beside=() begun=()
aside() {
  begun[$1]=yes
  set -m
  (
    SECONDS=0
    "stage_$1" < /dev/null > "$asides/$1" 2>&1
    echo "$? $SECONDS" > "$asides/$1.end"
  ) &
  set +m
  beside[$1]=$!
}

# Stops concurrent stages if this script ends before them.
leave() {
  local pid
  for pid in "${beside[@]}"; do kill -TERM -- "-$pid" 2> /dev/null && wait "$pid"; done
  rm -rf "$asides"
}

# join STAGE: waits for a concurrent stage, shows its output and records it; returns its status.
join() {
  local status seconds
  wait "${beside[$1]}" || true
  unset "beside[$1]"
  header "$1"
  cat "$asides/$1"
  read -r status seconds < "$asides/$1.end" || { status=1 seconds=0; }
  record "$1" "$status" $((SECONDS - seconds))
  return "$status"
}

# asked STAGE: whether it is requested and not started yet.
asked() { [[ " ${stages[*]} " == *" $1 "* && -z ${begun[$1]-} ]]; }

stage_format() {
  cargo fmt --all --check && { [ ! -f fuzz/Cargo.toml ] || cargo fmt --manifest-path fuzz/Cargo.toml --check; }
}

stage_clippy() { cargo clippy "${locked[@]}" --workspace --all-targets -- -D warnings; }

stage_deny() {
  if ! have cargo-deny; then
    note "installing cargo-deny $cargo_deny_version into $flint_tools (once, some minutes)"
    cargo install --quiet --locked --root "$flint_tools" "cargo-deny@$cargo_deny_version" || return 1
  fi
  cargo deny --log-level error check licenses bans sources || return 1
  local said
  if said=$(timeout 120 cargo deny --log-level error check advisories 2>&1); then
    note "advisories ok"
  elif [[ $? -eq 124 || $said == *'advisory database'* ]]; then
    note "NOT CHECKED: known advisories, because the advisory database cannot be reached from here"
  else
    printf '%s\n' "$said"
    return 1
  fi
}

stage_runtimes() { runtimes/test.sh; }

stage_functions() { functions/test.sh; }

# What `e2e` tests, ahead of it.
stage_binary() { nice -n 10 scripts/build.sh --fast; }

stage_cargo() { scripts/cargo-tests.py "${locked[@]}"; }

# suite NAME FOLDER: runs tests/NAME, shows its output when it ends, and writes status and seconds to
# FOLDER/NAME.
suite() {
  local status
  SECONDS=0
  bash "tests/$1/run.sh" < /dev/null > "$2/$1" 2>&1
  status=$?
  flock "$2" cat "$2/$1"
  echo "$status $SECONDS" > "$2/$1"
}

# together NAME…: runs suites concurrently.
together() {
  local name folder status seconds result=0
  folder=$(mktemp -d)
  header "e2e $*"
  export -f suite
  printf '%s\n' "$@" | xargs -P $(($(nproc) + 1)) -I NAME bash -c 'suite NAME "$0"' "$folder"
  for name in "$@"; do
    read -r status seconds < "$folder/$name"
    record "e2e $name" "$status" $((SECONDS - seconds))
    [ "$status" -eq 0 ] || result=1
  done
  rm -rf "$folder"
  return "$result"
}

# longest_first NAME…: the suites in an order that minimises the total time.
longest_first() {
  local long=(crash cli containment runtimes openwhisk-js wasm) name
  for name in "${long[@]}"; do [[ " $* " != *" $name "* ]] || echo "$name"; done
  for name in "$@"; do [[ " ${long[*]} " == *" $name "* ]] || echo "$name"; done
}

stage_e2e() {
  local suites=() run name before started status=0 result=0
  for run in tests/*/run.sh; do
    name=$(basename "$(dirname "$run")")
    [ -f "$run" ] && [[ " ${E2E:-$name} " == *" $name "* ]] && suites+=("$name")
  done
  [ ${#suites[@]} -gt 0 ] || { note "there are no suites${E2E:+ called $E2E} (tests/NAME/run.sh)"; [ -z "${E2E-}" ]; return; }
  if [ -n "${beside[binary]-}" ]; then join binary || return 1; fi
  FLINT_BIN=$(scripts/build.sh --fast) || return 1
  functions/samples/build.sh || return 1
  export FLINT_BIN
  before=$asides/before
  python3 tests/harness/flint_server.py > "$before"
  # shellcheck disable=SC2046
  together $(longest_first "${suites[@]}") || result=1
  started=$SECONDS
  python3 tests/harness/flint_server.py "$before" || { status=1 result=1; }
  record "e2e nothing left" "$status" "$started"
  return "$result"
}

stage_fuzz() { nice -n 10 scripts/fuzz-short.sh; }

stage_release() {
  local binary
  binary=$(scripts/build.sh) && FLINT_BIN=$binary tests/demo/run.sh
}

have cargo || die "there is no cargo: run ./bootstrap.sh first"
stages=("$@")
[ $# -gt 0 ] || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  [[ " ${all_stages[*]} release " == *" $stage "* ]] || die "no stage is called $stage; there are: ${all_stages[*]} release"
done
asides=$(mktemp -d)
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for stage in "${stages[@]}"; do
  if [ -n "${beside[$stage]-}" ]; then
    join "$stage"
    continue
  fi
  if [ "$stage" = runtimes ]; then
    for other in functions deny; do ! asked "$other" || aside "$other"; done
  fi
  if [[ $stage != format && $stage != e2e && -z ${begun[binary]-} ]] && asked e2e; then aside binary; fi
  if [[ $stage == cargo || $stage == e2e ]] && asked fuzz; then aside fuzz; fi
  begun[$stage]=yes
  header "$stage"
  started=$SECONDS
  "stage_$stage"
  status=$?
  # The suites are recorded one by one; the stage itself only if it failed before them.
  [[ $stage == e2e && ${summary[*]-} == *"e2e "* ]] || record "$stage" "$status" "$started"
done

printf '\n=== summary (%s)\n' "$(elapsed $((SECONDS - began)))"
printf '  %s\n' "${summary[@]}"
printf 'stages: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
