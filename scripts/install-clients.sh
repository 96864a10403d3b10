#!/usr/bin/env bash
# Installs the client libraries of the sets that are named as arguments ("all" for every set), unless they are installed. The set "debian" consists of
# Debian packages (root). The others are stored in a cache directory, which is printed.
set -euo pipefail

redis_py=8.1.0
node_redis=6.3.1
ioredis=6.0.0

cache=${XDG_CACHE_HOME:-$HOME/.cache}/throttled-clients
mkdir -p "$cache"
drivers=$(cd "$(dirname "$0")/../tests/clients/drivers" && pwd)

# debian installs packages, unless the command given as the first argument succeeds.
debian() {
  local present=$1
  shift
  bash -c "$present" >/dev/null 2>&1 && return
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

install_debian() {
  debian 'command -v redis-cli && command -v redis-benchmark' redis-tools
  debian '/usr/bin/python3 -c "import redis"' python3-redis
  debian 'php -r "exit(extension_loaded(\"redis\") ? 0 : 1);"' php-cli php-redis
  debian 'test -e /usr/share/php/Predis/autoload.php' php-nrk-predis
  debian 'ruby -e "require %q(redis)"' ruby ruby-redis
  debian 'perl -MRedis -MJSON::PP -e 1' perl libredis-perl
  debian 'lua5.1 -e "require [[redis]]"' lua5.1 lua-redis lua-cjson
  debian 'test -e /usr/include/hiredis/hiredis.h && command -v cc' gcc libc6-dev libhiredis-dev
  debian 'command -v prometheus-redis-exporter' prometheus-redis-exporter
}

install_python() {
  [ -x "$cache/python/bin/python" ] && [ "$(cat "$cache/python/version" 2>/dev/null)" = "$redis_py" ] && return
  debian 'python3 -c "import ensurepip, venv"' python3-venv
  python3 -m venv --clear "$cache/python"
  "$cache/python/bin/python" -m pip install -q --disable-pip-version-check "redis==$redis_py"
  echo "$redis_py" >"$cache/python/version"
}

install_node() {
  local want="node-redis $node_redis, ioredis $ioredis"
  [ "$(cat "$cache/node/version" 2>/dev/null)" = "$want" ] && return
  debian 'command -v npm' nodejs npm
  mkdir -p "$cache/node"
  (cd "$cache/node" && npm install --silent --no-audit --no-fund --no-save --prefix . "redis@$node_redis" "ioredis@$ioredis")
  echo "$want" >"$cache/node/version"
}

# The drivers for Go, Java and Rust are programs that contain the libraries. They are built again after a change.
install_go() {
  go build -C "$drivers/.." -o "$cache/go/driver" ./drivers/go
}

install_java() {
  local sum
  sum=$(find "$drivers/java" -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  [ "$(cat "$cache/java/sum" 2>/dev/null)" = "$sum" ] && return
  debian 'command -v mvn' maven default-jdk-headless
  rm -rf "$cache/java"
  mvn -B -ntp -q -Dstyle.color=never -f "$drivers/java/pom.xml" -Doutput="$cache/java" compile \
    dependency:copy-dependencies -DoutputDirectory="$cache/java/lib" -DincludeScope=runtime
  echo "$sum" >"$cache/java/sum"
}

install_rust() {
  debian 'command -v cargo && command -v cc' cargo-web gcc libc6-dev # the package cargo of Debian 12 is too old
  CARGO_TARGET_DIR=$cache/rust cargo build --quiet --locked --manifest-path "$drivers/rust/Cargo.toml"
}

for set in "$@"; do
  case $set in
    all) install_debian; install_python; install_node; install_go; install_java; install_rust ;;
    debian | python | node | go | java | rust) "install_$set" ;;
    *) echo "unknown set of clients: $set" >&2; exit 2 ;;
  esac
done
echo "$cache"
