#!/usr/bin/env bash
# Starts three nodes on loopback with certificates of their own, in the foreground. Ctrl-C ends
# them and removes what they have written.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d "${TMPDIR:-/tmp}/throttled-cluster.XXXXXX")
pids=()

finish() {
  trap - EXIT INT TERM
  ((${#pids[@]})) && kill "${pids[@]}" 2>/dev/null || true
  wait || true
  rm -rf "$dir"
  echo "the nodes have ended, and $dir is removed"
}
trap finish EXIT
trap 'exit 0' INT TERM

bin/throttled certs --dir "$dir/certs" --cluster local n1 n2 n3 >/dev/null
bootstrap="n1=127.0.0.1:6382 n2=127.0.0.1:6482 n3=127.0.0.1:6582"
for i in 1 2 3; do
  port=$((6280 + 100 * i))
  bin/throttled --port "$port" --cluster-port $((port + 4)) --sentinel-port $((port + 20000)) \
    --data-dir "$dir/n$i" --cluster-id local --node-id "n$i" --raft-addr "127.0.0.1:$((port + 2))" --bootstrap "$bootstrap" \
    --raft-tls-cert "$dir/certs/n$i.pem" --raft-tls-key "$dir/certs/n$i-key.pem" --raft-tls-ca "$dir/certs/ca.pem" \
    "$@" > >(sed -u "s/^/n$i  /") 2>&1 &
  pids+=($!)
done

# A node answers PING before it has a leader; the first decision shows that one leads.
tries=0
until redis-cli -p 6380 CL.THROTTLE throttled-cluster-ready 0 1 1 2>/dev/null | grep -q '^[01]'; do
  ((++tries < 100)) || { echo "no node leads"; exit 1; }
  kill -0 "${pids[@]}" 2>/dev/null || { echo "a node has ended"; exit 1; }
  sleep 0.1
done
cat <<TEXT

Three nodes are ready. Ask any of them:

  redis-cli -p 6380 CL.THROTTLE user 15 30 60     any client, any node (6380, 6480, 6580)
  redis-cli -c -p 6384 CL.THROTTLE user 15 30 60  Redis Cluster clients (6384, 6484, 6584)
  redis-cli -p 26380 SENTINEL MASTERS             Redis Sentinel clients (26380, 26480, 26580)
  redis-cli -p 6380 CL.CLUSTER NODES              who is there, and who leads
  redis-cli -p 6380 CL.CLUSTER TRANSFER           let another node lead

Ctrl-C ends them.

TEXT
wait -n "${pids[@]}"
echo "a node has ended; the others are ended too"
