#!/usr/bin/env bash
# PostgreSQL from Debian's package, with its own cluster; as root it runs as another user (see below).
#
#   start.sh DATA_DIR [--network NETWORK_DIR]      prints url, host, port, version, pid
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

programs=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | sort -V | tail -n 1)
[ -x "$programs/initdb" ] || die "there is no PostgreSQL server: apt-get install postgresql"
begin "$@"

# PostgreSQL refuses to run as root. The ids of nobody own nothing, and need no account.
as=()
if [ "$(id -u)" = 0 ]; then
  as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  mkdir "$data/cluster" && chown 65534:65534 "$data/cluster"
  reached=$data
  while [ "$reached" != / ]; do
    [ -n "$(find "$reached" -maxdepth 0 -perm -001)" ] || die "the user nobody cannot reach $reached: choose another folder, or chmod o+x it"
    reached=$(dirname "$reached")
  done
fi
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
cd /
# Owned by that user, who could open neither a file of ours nor a pipe.
(umask 077 && printf '%s\n' "$password" > "$data/password")
[ ${#as[@]} = 0 ] || chown 65534:65534 "$data/password"
HOME=$data "${as[@]}" "$programs/initdb" --pgdata "$data/cluster" --username flint --auth scram-sha-256 \
  --pwfile "$data/password" --encoding UTF8 --locale C > "$data/log" 2>&1
rm "$data/password"

port=$(free_port)
# No socket in a shared folder; connections from the other end of the network need a password like all others.
[ "$address" = 127.0.0.1 ] || echo 'host all flint samenet scram-sha-256' >> "$data/cluster/pg_hba.conf"
run "${as[@]}" "$programs/postgres" -D "$data/cluster" -c "listen_addresses=$address" -c "port=$port" \
  -c unix_socket_directories= -c max_connections=200 -c shared_buffers=64MB
ready "${inside[@]}" env "PGPASSWORD=$password" "$programs/psql" -h "$address" -p "$port" -U flint -d postgres -c 'SELECT 1'
say "url=postgresql://flint:$password@$address:$port/postgres" "host=$address" "port=$port" "version=$(version "$programs/postgres" --version)"
