#!/usr/bin/env bash
# Builds the servers that "make bench WHAT=edges" compares throttled with, in pinned versions, and prints the directory
# of their binaries. They are built once, into PEERS (~/.cache/throttled-peers). Needs cargo. A peer that cannot be built
# is reported and left out; the measurement then omits its comparisons.
set -euo pipefail
throttlecrab=0.4.40
ratelimit=v1.4.1-0.20260122083618-3fb702589d36 # envoyproxy/ratelimit has no releases
peers=${PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/throttled-peers}
mkdir -p "$peers"

crab=$peers/throttlecrab-$throttlecrab
if [[ ! -x $crab/bin/throttlecrab-server ]]; then
  command -v protoc >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq protobuf-compiler >/dev/null; } >&2
  nice -n 19 cargo install throttlecrab-server --version "$throttlecrab" --locked --quiet --root "$crab" >&2 ||
    echo "throttlecrab-server $throttlecrab was not built" >&2
fi

envoy=$peers/ratelimit-$ratelimit
if [[ ! -x $envoy/service_cmd ]]; then
  GOBIN=$envoy CGO_ENABLED=0 nice -n 19 go install "github.com/envoyproxy/ratelimit/src/service_cmd@$ratelimit" >&2 ||
    echo "envoyproxy/ratelimit $ratelimit was not built" >&2
fi

# Links without versions, for the measurement.
for binary in "$crab/bin/throttlecrab-server" "$envoy/service_cmd"; do
  [[ ! -x $binary ]] || ln -sfn "$binary" "$peers/$(basename "$binary")"
done
echo "$peers"
