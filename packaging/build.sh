#!/usr/bin/env bash
# Builds the Debian package and the rpm into DIR (bin/packages), with the nfpm program of the variable NFPM. The same commit
# produces the same bytes with the same version of Go; "make packages-test" checks this.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-bin/packages}
export PACKAGE_ARCH=${GOARCH:-$(go env GOARCH)} TZ=UTC

# Without a tag, the version is that of the program, and the time of the commit orders the packages.
tag=$(git describe --tags --exact-match 2>/dev/null || true)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
if [[ $tag == v* ]]; then
  PACKAGE_VERSION=${tag#v}
else
  base=$(sed -n 's/^var version = "\(.*\)-dev"$/\1/p' cmd/throttled/main.go)
  PACKAGE_VERSION=$base~dev.$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=8 HEAD)
fi
export SOURCE_DATE_EPOCH PACKAGE_VERSION

rm -rf bin/package
mkdir -p bin/package "$out"
CGO_ENABLED=0 GOOS=linux GOARCH=$PACKAGE_ARCH go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$PACKAGE_VERSION" -o bin/package/throttled ./cmd/throttled
go build -o bin/package/native ./cmd/throttled # can run here, also if the package is for another architecture
bin/package/native completion bash >bin/package/completion.bash
bin/package/native help --man-dir bin/package/man >/dev/null
gzip -9 -n bin/package/man/*
gzip -9 -n -c CHANGELOG.md >bin/package/CHANGELOG.md.gz
packaging/copyright.sh >bin/package/copyright

for packager in deb rpm; do
  "${NFPM:?}" package --config packaging/nfpm.yaml --packager $packager --target "$out"
done
