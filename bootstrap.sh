#!/usr/bin/env bash
# Sets up what Flint needs on Debian 12+, Ubuntu 22.04+ and their like: system packages, the pinned Rust
# toolchain, the dependencies of the sample functions. Run it as often as you like: it does only what is missing.
# The toolchains of WebAssembly's languages are not among it: `flint deploy` names what a project needs, and tests/wasm brings its own.
#
#   ./bootstrap.sh               everything
#   ./bootstrap.sh --no-samples  without the sample functions
#
# As root it installs packages with apt-get; as anybody else it names them and stops.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

samples=yes
case ${1-} in
  '') ;;
  --no-samples) samples=no ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

# --- system packages ---------------------------------------------------------------------------------------------

# at_least MINIMUM VERSION
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

python_is_new() { have python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'; }
python_makes_venvs() { python3 -c 'import ensurepip, venv' 2> /dev/null; }
node_is_new() { have node && at_least 18 "$(node --version | tr -d v)"; }
jdk_is_new() { have javac && have jar && at_least 17 "$(javac -version 2>&1 | awk '{print $2}')"; }

# The distribution's default headless JDK, unless that is known to be older than 17 (Ubuntu 22.04).
jdk_package() {
  local version
  version=$(apt-cache policy default-jdk-headless 2> /dev/null | awk '/Candidate:/ {print $2}' | sed -E 's/^[0-9]+:1\.//')
  case $version in
    [0-9]*) at_least 17 "$version" || { echo openjdk-17-jdk-headless; return; } ;;
  esac
  echo default-jdk-headless
}

missing_packages() {
  have curl || printf '%s\n' curl ca-certificates
  have git || echo git
  have make || echo make
  have cc && have c++ || echo build-essential
  have pkg-config || echo pkg-config
  python_is_new || echo python3
  python_is_new && python_makes_venvs || echo python3-venv
  have node || echo nodejs
  have npm || echo npm
  jdk_is_new || jdk_package
  have ip || [ -x /usr/sbin/ip ] || [ -x /sbin/ip ] || echo iproute2
  [ "$samples" = yes ] && packages_of_the_tests
  have nft || [ -x /usr/sbin/nft ] || echo nftables
}

# Flint runs functions in these languages where the host has them; its tests want all of them, and a broker.
packages_of_the_tests() {
  have go || echo golang-go
  have mvn || echo maven
  have php || echo php-cli
  have ruby || echo ruby
  [ -e /usr/share/java/gson.jar ] || echo libgoogle-gson-java
  have nats-server || [ -x /usr/sbin/nats-server ] || echo nats-server
}

apt_lists_are_there() { compgen -G '/var/lib/apt/lists/*_Packages*' > /dev/null; }

install_packages() {
  local packages log
  mapfile -t packages < <(missing_packages)
  [ ${#packages[@]} -gt 0 ] || return 0
  if ! have apt-get; then
    die "these packages (Debian's names) are missing: ${packages[*]}. Install them with this system's package manager and run ./bootstrap.sh again."
  fi
  if [ "$(id -u)" != 0 ]; then
    note "Flint needs system packages that are not installed. Run"
    note ""
    note "    sudo apt-get update && sudo apt-get install --no-install-recommends -y ${packages[*]}"
    note ""
    note "and then ./bootstrap.sh again."
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  note "[1/3] system packages: ${packages[*]}"
  # Lists that are old name packages that are gone: one more try with new ones.
  if ! apt_lists_are_there || ! apt-get install --no-install-recommends -y "${packages[@]}" > "$log" 2>&1; then
    apt-get update > "$log" 2>&1 || { tail -n 5 "$log" >&2; warn "apt-get update failed; going on with the lists that are here"; }
    mapfile -t packages < <(missing_packages)
    if ! apt-get install --no-install-recommends -y "${packages[@]}" > "$log" 2>&1; then
      tail -n 20 "$log" >&2
      die "apt-get could not install ${packages[*]}; its full output is in $log"
    fi
  fi
  rm -f "$log"
  hash -r
  mapfile -t packages < <(missing_packages)
  [ ${#packages[@]} -eq 0 ] ||
    die "installed, but still too old or not on PATH: ${packages[*]}. Flint needs Python 3.9+ and a JDK 17+."
}

# Distributions whose own Node is older than 18 (Ubuntu 22.04): the same program from the npm registry.
node_line=20
install_newer_node() {
  node_is_new && return
  local found arch
  found=$(node --version)
  case $(uname -m) in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) arch= ;; esac
  if [ "$(id -u)" != 0 ] || [ -z "$arch" ]; then
    die "Node $found is older than the 18 that Flint needs: install a newer one (https://nodejs.org/en/download) and run ./bootstrap.sh again"
  fi
  note "[1/3] Node $node_line (this distribution's is $found)"
  npm install --global --prefix /usr/local --no-audit --no-fund --loglevel=error "node-linux-$arch@$node_line" > /dev/null
  ln -sf "/usr/local/lib/node_modules/node-linux-$arch/bin/node" /usr/local/bin/node
  hash -r
  node_is_new || die "Node $node_line was put into /usr/local/bin, but $(command -v node) comes first on PATH"
}

# --- Rust --------------------------------------------------------------------------------------------------------

toolchain=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)

# Does the toolchain that rust-toolchain.toml names work here, with the components that the tests use?
rust_is_ready() {
  have cargo || return 1
  local version
  version=$(RUSTUP_AUTO_INSTALL=0 cargo --version 2> /dev/null) || return 1
  case $version in "cargo $toolchain"*) ;; *) have rustup && return 1 ;; esac
  RUSTUP_AUTO_INSTALL=0 cargo fmt --version > /dev/null 2>&1 && RUSTUP_AUTO_INSTALL=0 cargo clippy --version > /dev/null 2>&1
}

install_rustup() {
  local init
  init=$(mktemp)
  if curl --proto '=https' --tlsv1.2 -fsS --retry 2 --connect-timeout 15 -o "$init" https://sh.rustup.rs 2> /dev/null; then
    sh "$init" -y -q --no-modify-path --profile minimal --default-toolchain none > /dev/null
    rm -f "$init"
    return
  fi
  rm -f "$init"
  [ "$(id -u)" = 0 ] && have apt-get && apt-get install --no-install-recommends -y rustup > /dev/null 2>&1 && return
  die "rustup cannot be reached and is not in this distribution's packages: install Rust $toolchain (https://www.rust-lang.org/tools/install) and run ./bootstrap.sh again"
}

install_rust() {
  rust_is_ready && return
  if ! have cargo && ! have rustup; then
    note "[2/3] Rust: rustup"
    install_rustup
  fi
  if have rustup; then
    note "[2/3] Rust: toolchain $toolchain"
    rustup toolchain install "$toolchain" --profile minimal --component rustfmt --component clippy > /dev/null 2>&1 ||
      rustup toolchain install "$toolchain" --profile minimal --component rustfmt --component clippy
  fi
  rust_is_ready && return
  have cargo || die "cargo is still not on PATH after the installation of Rust"
  at_least "$toolchain" "$(cargo --version | awk '{print $2}')" ||
    die "$(cargo --version) is older than the $toolchain that Flint needs, and there is no rustup to install it: remove it, or install rustup"
  warn "using $(cargo --version) instead of the pinned $toolchain; for the tests add its rustfmt and clippy"
}

# --- samples -----------------------------------------------------------------------------------------------------

install_packages
install_newer_node
install_rust
if [ "$samples" = yes ]; then
  built=$(functions/samples/build.sh)
  [ -z "$built" ] || { note "[3/3] sample functions:"; printf '%s\n' "$built"; }
fi
note "Ready. Next: make run"
