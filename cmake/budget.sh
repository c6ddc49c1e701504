#!/usr/bin/env bash
# budget.sh LOG: CPU seconds each target took to compile, and exit code 1 if one file is above its
# budget: 20 s for a host file, 30 s for a kernel file under the sanitizers (they double its time),
# twice 20 s for a unity batch, 45 s for one compiled by nvcc. (header_cost.sh: the headers.)
# On a machine that was x times slower while it compiled the file (timed.sh), x times as much.
# Splitting a file or declaring a template elsewhere is the cure, a higher budget is not.
set -euo pipefail
if [ ! -s "${1:?}" ]; then
  echo "nothing was compiled"
  exit 0
fi
awk '
  { limit = 20; if ($2 ~ /[.]cu[.]o$/) limit = 45; else if ($2 ~ /Unity/) limit = 40
    else if ($2 ~ /kernels_(simt|cpu)_asan[.]dir/) limit = 30
    target = $2; sub(/^CMakeFiles\//, "", target); sub(/[.]dir\/.*/, "", target)
    if ($1 > seconds[$2]) { total += $1 - seconds[$2]; sum[target] += $1 - seconds[$2]; seconds[$2] = $1 }
    if (NF > 2) limit *= $3
    if ($1 > limit) { printf "over budget: %.1f s, %.1f s allowed: %s\n", $1, limit, $2; over = 1 } }
  END {
    sorter = "sort -rn"
    for (t in sum) printf "%7.1f  %s\n", sum[t], t | sorter
    close(sorter)
    printf "%7.1f  CPU seconds in all\n", total
    exit over
  }' "$1"
