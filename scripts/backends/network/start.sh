#!/usr/bin/env bash
# A network for back ends, which functions with `--network egress` may reach. Needs root, ip, nft, nsenter.
#
#   start.sh NETWORK_DIR      prints namespace, address, flint_set
#
# Functions never reach their host, at any of its addresses, and this isolation is not relaxed. So the back
# ends get an address of their own, as in production: a network namespace with one veth pair to the host. The
# address is private, and functions reach private addresses only if the server was started with
# `--set network.allow_private=true` (see flint_set). The back ends in turn reach nobody: there is no route
# out of the namespace, and the host forwards only replies from it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[ "$(id -u)" = 0 ] || die "a network of its own needs root; functions have egress only as root, too"
for program in ip nft nsenter; do have $program || die "there is no $program: apt-get install iproute2 nftables util-linux"; done
[ $# = 1 ] && [ ! -e "$1" ] || die "usage: start.sh NETWORK_DIR, which must not exist yet"

mkdir -p "$1"
folder=$(cd "$1" && pwd)
name=flb$$
trap 'status=$?; [ $status -eq 0 ] || { end_network "$folder"; }; exit $status' EXIT
. "$here/network/end.sh"
echo "name=$name" > "$folder/env"

# A free /30 of a rarely used private range.
for attempt in $(seq 1 200); do
  number=$(((RANDOM << 15 | RANDOM) % 16384 * 4))
  prefix=10.219.$((number / 256))
  [ -n "$(ip -4 route show to match "$prefix.$((number % 256))" | grep -v '^default' || true)" ] || break
  [ "$attempt" -lt 200 ] || die "no free part of 10.219.0.0/16 was found"
done
host=$prefix.$((number % 256 + 1))
address=$prefix.$((number % 256 + 2))

ip netns add "$name"
ip link add "$name" type veth peer name eth0 netns "$name"
echo 1 > "/proc/sys/net/ipv6/conf/$name/disable_ipv6"
ip addr add "$host/30" dev "$name"
ip link set "$name" up
ip netns exec "$name" ip link set lo up
ip netns exec "$name" ip addr add "$address/30" dev eth0
ip netns exec "$name" ip link set eth0 up
# Replies to functions are forwarded, nothing else; the host itself accepts no requests.
nft -f - << RULES
table inet $name {
  chain forward {
    type filter hook forward priority -20; policy accept;
    iifname "$name" ct state established,related accept
    iifname "$name" drop
  }
  chain input {
    type filter hook input priority -20; policy accept;
    iifname "$name" ct state established,related accept
    iifname "$name" drop
  }
}
RULES
echo 1 > "/proc/sys/net/ipv4/conf/$name/forwarding"
printf '%s\n' "name=$name" "namespace=/run/netns/$name" "address=$address" flint_set=network.allow_private=true | tee "$folder/env"
