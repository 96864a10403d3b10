#!/usr/bin/env bash
# Creates a directory for the files of tests and prints its name. The directory is in memory (/dev/shm) if 4 GiB are
# free there and programs can be run from it. On a disk, tests can fail because of other programs: a node stops when an
# operation of its disk takes longer than 1.5 s.
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
