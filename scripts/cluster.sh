#!/usr/bin/env bash
# Starts three nodes with certificates on loopback, in the foreground. The signal USR1 restarts the nodes that have
# exited. Ctrl-C, or the exit of the last node, stops the cluster and removes its files.
#
# FIRST_PORT (6380) is the client port of the first node; the other nodes use FIRST_PORT+100 and FIRST_PORT+200. Relative to
# its client port, each node listens for HTTP at +1, for other nodes at +2, for gRPC at +3, for Redis Cluster clients at +4,
# for Redis Sentinel clients at +20000, and for clients that a Sentinel port has sent to the leader at +6.
set -euo pipefail
cd "$(dirname "$0")/.."
first=${FIRST_PORT:-6380}
dir=$(mktemp -d "${TMPDIR:-/tmp}/throttled-cluster.XXXXXX")
options=("$@")
pids=() # process ids of the running nodes, by node number

finish() {
  ((BASHPID == $$)) || exit 143 # a node process that is killed before exec still has the traps of this script
  trap - EXIT INT TERM USR1
  ((${#pids[@]})) && kill "${pids[@]}" 2>/dev/null || true
  wait || true
  rm -rf "$dir"
  echo "all nodes have exited; removed $dir"
}
trap finish EXIT
trap 'exit 0' INT TERM

port() { echo $((first + 100 * ($1 - 1))); }
raft() { echo "127.0.0.1:$(($(port "$1") + 2))"; }

# start starts a node.
start() {
  local i=$1 port
  port=$(port "$i")
  bin/throttled --port "$port" --http-port $((port + 1)) --grpc-port $((port + 3)) --cluster-port $((port + 4)) --sentinel-port $((port + 20000)) --leader-port $((port + 6)) \
    --data-dir "$dir/n$i" --cluster-id local --node-id "n$i" --raft-addr "$(raft "$i")" \
    --bootstrap "n1=$(raft 1) n2=$(raft 2) n3=$(raft 3)" \
    --raft-tls-cert "$dir/certs/n$i.pem" --raft-tls-key "$dir/certs/n$i-key.pem" --raft-tls-ca "$dir/certs/ca.pem" \
    "${options[@]}" > >(sed -u "s/^/n$i  /") 2>&1 &
  pids[i]=$!
}

# ended removes the pid of a node that has exited, and prints its exit code.
ended() {
  local i=$1 code=0
  wait "${pids[i]}" 2>/dev/null || code=$?
  unset "pids[i]"
  echo "n$i exited with code $code"
}

runs() { kill -0 "${pids[$1]}" 2>/dev/null; }

# answers reports whether the node itself serves its port, and not another program.
answers() { redis-cli -p "$(port "$1")" INFO server 2>/dev/null | grep -q "^process_id:${pids[$1]}[^0-9]*$"; }

# decides reports whether the first node answers CL.THROTTLE, which requires a leader. Most other commands do not.
decides() { redis-cli -p "$first" CL.THROTTLE throttled-cluster-ready 0 1 1 2>/dev/null | grep -q '^[01]'; }

# restart starts the nodes that have exited.
restart() {
  local i
  for i in 1 2 3; do
    if [[ -n ${pids[i]-} ]]; then
      runs "$i" && continue
      ended "$i"
    fi
    start "$i"
    echo "n$i is running again as process ${pids[i]}"
  done
}

show() { printf '  %-48s %s\n' "$@"; }

bin/throttled certs --dir "$dir/certs" --cluster local n1 n2 n3 >/dev/null
for i in 1 2 3; do start "$i"; done
tries=0
sleep 0.1 # a node that cannot bind its ports exits within this time
until answers 1 && answers 2 && answers 3 && decides; do
  ((++tries < 300)) || { echo "no leader was elected"; exit 1; }
  for i in 1 2 3; do runs "$i" || { ended "$i"; exit 1; }; done
  sleep 0.1
done

trap restart USR1
p1=$(port 1) p2=$(port 2) p3=$(port 3)
printf '\nThree nodes are ready. Send commands to any node, or kill one:\n\n'
show "redis-cli -p $p1 CL.THROTTLE user 15 30 60" "any client, any node ($p1, $p2, $p3)"
show "curl -s 127.0.0.1:$((p1 + 1))/readyz" "HTTP ($((p1 + 1)), $((p2 + 1)), $((p3 + 1))); gRPC ($((p1 + 3)), $((p2 + 3)), $((p3 + 3)))"
show "redis-cli -c -p $((p1 + 4)) CL.THROTTLE user 15 30 60" "Redis Cluster clients ($((p1 + 4)), $((p2 + 4)), $((p3 + 4)))"
show "redis-cli -p $((p1 + 20000)) SENTINEL MASTERS" "Redis Sentinel clients ($((p1 + 20000)), $((p2 + 20000)), $((p3 + 20000)))"
show "redis-cli -p $p1 CL.CLUSTER NODES" "the members and the leader"
show "redis-cli -p $p1 CL.CLUSTER TRANSFER" "transfer leadership to another node"
show "kill -9 ${pids[1]}" "kill n1 (n2 is ${pids[2]}, n3 is ${pids[3]})"
show "kill -USR1 $$" "restart the nodes that have exited"
printf '\nCtrl-C stops all nodes.\n\n'

while ((${#pids[@]})); do
  for i in "${!pids[@]}"; do
    runs "$i" && continue
    ended "$i"
    ((${#pids[@]} == 0)) || echo "the other nodes keep running; to restart this one: kill -USR1 $$"
  done
  sleep 0.2
done 2>/dev/null # hides the messages of bash about killed jobs, which contain the full command line
echo "the last node has exited"
