#!/usr/bin/env bash
# header_cost.sh BUILD: what a program pays for including warptape.h, as a multiple of what the
# standard headers behind it cost alone; exit code 1 above WARPTAPE_HEADER_LIMIT. Both are
# compiled by turns, and the median of seven ratios counts, so that a busy machine slows both alike.
# That is a coarse net, which busy machines move by a tenth either way: it was 1.55 times when the
# limit was set. What includes and templates cost to the per cent,
# tests/consumers/umbrella_cost.sh counts in the compiler's memory.
set -euo pipefail
build=${1:?} limit=${WARPTAPE_HEADER_LIMIT:-1.8}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compile() { CCACHE_DISABLE=1 "${CXX:-c++}" -std=c++20 -I "$build/include" -I "$build/generated" "$@"; }

echo '#include <warptape/warptape.h>' >"$scratch/ours.cpp"
compile -M "$scratch/ours.cpp" | tr -s ' \\' '\n\n' | grep '/warptape/.*[.]h$' |
  xargs grep -hoE '^#include <[a-z_]+>' | sort -u >"$scratch/standard.cpp"
[ -s "$scratch/standard.cpp" ] || { echo "header_cost: no standard header found in $build" >&2; exit 1; }
compile -fsyntax-only "$scratch/ours.cpp"  # an error is said here: below it would be lost

TIMEFORMAT='%U %S'
for round in 1 2 3 4 5 6 7; do
  for file in ours standard; do
    spent=$({ time compile -fsyntax-only "$scratch/$file.cpp"; } 2>&1)
    echo "$file $spent"
  done
done | awk '
  $1 == "ours" { ours = $2 + $3 }
  $1 == "standard" { printf "%.3f %.2f %.2f\n", ours / ($2 + $3), ours, $2 + $3 }' | sort -n |
  awk -v limit="$limit" 'NR == 4 {
    printf "warptape.h %.2f s, its standard headers %.2f s: %.2f times, %.2f allowed\n",
      $2, $3, $1, limit
    exit ($1 > limit) }'
