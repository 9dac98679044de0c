# shellcheck shell=bash
# Removes what start.sh created, as far as it got. Sourced by start.sh and stop.sh.
end_network() {
  local name
  name=$(value name "$1/env")
  [ -n "$name" ] || return 0
  nft delete table inet "$name" 2> /dev/null || true
  ip link delete "$name" 2> /dev/null || true
  ip netns delete "$name" 2> /dev/null || true
  rm -rf "$1"
}
