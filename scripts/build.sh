#!/usr/bin/env bash
# Builds the release binary and prints its path.
#
#   scripts/build.sh          as users get it
#   scripts/build.sh --fast   without link-time optimisation: in a fraction of the time, and slower; for tests
#
# It is optimised by a profile of calls (scripts/profile/make.sh), unless RUSTFLAGS are set or
# FLINT_PROFILE=none is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

have cargo || die "there is no cargo: run ./bootstrap.sh first"
have javac || die "there is no JDK: run ./bootstrap.sh first"
profile=release
case ${1-} in
  '') ;;
  --fast) profile=fast-build ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
target=$(target_dir .)
options=() linking=()

# Unpacks the profile to a path shared by all clones that have the same one, so that cargo does not rebuild
# everything.
unpack() {
  [ ! -f "$2" ] || return 0
  mkdir -p "$target"
  { xz --decompress --stdout "$1" 2> /dev/null || python3 -c 'import lzma, sys; sys.stdout.buffer.write(lzma.open(sys.argv[1]).read())' "$1"; } \
    > "$2.$$" && mv "$2.$$" "$2" || { rm -f "$2.$$"; return 1; }
}

if [ -n "${RUSTFLAGS-}${CARGO_ENCODED_RUSTFLAGS-}" ] || [ "${FLINT_PROFILE-}" = none ]; then
  :
elif [ "$(profile_key)" != "$(cat scripts/profile/taken-for)" ]; then
  warn "built without a profile, some 20 % slower: it was taken for another compiler or other dependencies (scripts/profile/make.sh takes one)"
else
  packed=scripts/profile/flint.profdata.xz
  counts=$target/flint-$(sha256sum < "$packed" | cut -c1-16).profdata
  unpack "$packed" "$counts" || die "$packed cannot be unpacked; install xz-utils, or build without it: FLINT_PROFILE=none"
  # Code that has changed since the profile was taken needs no warning. Hot code is inlined more eagerly than
  # by default, but less than LLVM would with a profile, which makes the binary a tenth larger. What is not
  # known to be hot is inlined as with opt-level "s": otherwise the binary is 8 MiB larger (docs/adr/0022-*).
  inlining='-hot-callsite-threshold=1000 -inline-threshold=50 -inlinecold-threshold=45'
  flags="'-Cprofile-use=$counts', '-Cllvm-args=-no-pgo-warn-mismatch', '-Cllvm-args=$inlining'"
  options=(--config "build.rustflags=[$flags]")
  # Merges identical functions. The profile's key implies a compiler that links with LLD, which supports this.
  linking=(-Clink-arg=-Wl,--icf=all)
fi
cargo rustc --profile "$profile" --package flint --bin flint "${options[@]}" -- "${linking[@]}" >&2
echo "$target/$profile/flint"
