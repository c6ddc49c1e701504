#!/usr/bin/env bash
# slowness.sh N: how many times longer N compilations of yardstick.cpp take than on the machine for
# which budgets are set (budget.sh, tools/test_cost.sh). At least 1: a fast machine narrows none.
set -euo pipefail
n=${1:?}
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
TIMEFORMAT='%U %S'
spent=$({ time for ((i = 0; i < n; i++)); do
  c++ -std=c++20 -O2 -c "$(dirname "$0")/yardstick.cpp" -o "$scratch"
done; } 2>&1)
awk -v n="$n" '{x = ($1 + $2) / (n * 0.95)} END {printf "%.2f", (x > 1 ? x : 1)}' <<<"${spent##*$'\n'}"
