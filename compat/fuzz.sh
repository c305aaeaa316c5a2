#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME each (20s), one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} time=${FUZZTIME:-20s} targets=0
for package in $(grep -rlE '^func Fuzz' --include='*_test.go' --exclude-dir='.?*' . | xargs -n1 dirname | sort -u); do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | cut -d' ' -f2 | sort -u); do
    echo "== $package $target"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1x "$package"
    targets=$((targets + 1))
  done
done
echo "$targets fuzz targets ran for $time each"
