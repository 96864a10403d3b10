#!/usr/bin/env bash
# Creates a directory for the files of tests and prints its name. It is in memory if there is room for 4 GiB and
# programs may run from there: a node stops when its disk does not answer for 1.5 s, and a disk that other programs
# keep busy does that to tests.
set -euo pipefail

usable() {
  local free probe
  free=$(df --output=avail -B1G "$1" 2>/dev/null | tail -1) || return 1
  [ "$free" -ge 4 ] || return 1
  probe=$(mktemp "$1/probe.XXXXXX" 2>/dev/null) || return 1
  printf '#!/bin/sh\n' >"$probe"
  chmod +x "$probe"
  "$probe" 2>/dev/null && rm "$probe" || { rm "$probe"; return 1; }
}

parent=${TMPDIR:-/tmp}
if usable /dev/shm; then parent=/dev/shm; fi
mktemp -d "$parent/tests.XXXXXX"
