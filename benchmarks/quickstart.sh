#!/usr/bin/env bash
# Seconds of `make quickstart` from nothing (a fresh clone, an empty cache; pip's own download cache stays) and again.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet "$root" "$work/clone"
cd "$work/clone"
export HARNESS_CACHE=$work/cache
for which in "from nothing" "again"; do
  SECONDS=0
  make quickstart
  echo "make quickstart, $which: $SECONDS s"
done
