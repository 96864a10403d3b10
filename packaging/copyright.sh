#!/usr/bin/env bash
# Prints the license of throttled, and those of all modules that are linked into the server. Their licenses require that
# copies of the program contain them.
set -euo pipefail
cd "$(dirname "$0")/.."
cat LICENSE
printf '\nThe server contains these modules. The source of each is that of its version at https://proxy.golang.org.\n'
go list -deps -f '{{with .Module}}{{if .Version}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/throttled | sort -u |
  while read -r path version dir; do
    printf '\n%s\n%s %s\n\n' "--------------------------------------------------------------------------------" "$path" "$version"
    files=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort)
    [ -n "$files" ] || { echo "module $path has no license file" >&2; exit 1; }
    while read -r file; do cat "$file"; done <<<"$files"
  done
