#!/usr/bin/env bash
# wt bench model: says that it models, has every family, names what bounds it, follows the committed
# table. Usage: wt_bench_model_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
table=$(cd "${0%/*}/../../.." && pwd)/bench/sass/sm_90a.txt
bad=0
fail() { echo "FAILED: $*"; bad=1; }

out=$("$wt" bench model) || fail "exit code $?"
grep -q '^modelled, not measured' <<<"$out" || fail "does not say that it models"
for family in add gelu_backward softmax_warp layer_norm_block matmul_mma adamw_step reduce_rows; do
  grep -q "^$family<" <<<"$out" || fail "no row for $family"
done
# A fraction is above 0 and at most 1, and has a bound.
rows=$("$wt" bench model --all --json) || fail "--json: exit code $?"
kernels=$(grep -c '^[a-z_0-9]*[<_ ].* [0-9]' "$table")
[ "$(wc -l <<<"$rows")" -gt "$kernels" ] || fail "$(wc -l <<<"$rows") lines for $kernels kernels"
if grep -v '"impl":"modelled"' <<<"$rows" | grep -q .; then fail "a line is not called modelled"; fi
awk -F'"ratio":' '{split($2, a, ",")} !(a[1] > 0 && a[1] <= 1) {print; bad = 1} END {exit bad}' \
  <<<"$rows" || fail "fractions outside 0 to 1"
if grep -v '"bound":"[a-z]' <<<"$rows" | grep -q .; then fail "a line has no bound"; fi
# A copy that loads and stores 16 bytes a thread reaches a copy's rate.
"$wt" bench model --all --only copy_bytes | grep -q '^copy_bytes .* 1\.00 .* copy' ||
  fail "copy_bytes does not copy: $("$wt" bench model --all --only copy_bytes)"
said=$("$wt" bench model --only copy_bites 2>&1)
[ $? -eq 2 ] || fail "--only copy_bites: exit code is not 2"
grep -q copy_bytes <<<"$said" || fail "--only copy_bites does not name the near one: $said"
# Beside an earlier table: of the same rows nothing is new, better or gone; of a row that waited more
# the fraction before is lower.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$wt" bench model --before "$table" >"$scratch/same" || fail "--before: exit code $?"
grep -qE '^[0-9]+ rows: 0 new, 0 better and 0 worse' "$scratch/same" || fail "--before itself: $(tail -2 "$scratch/same")"
if grep -q '^gone:' "$scratch/same"; then fail "--before itself: rows are gone"; fi
grep -v '^copy_bytes' "$table" >"$scratch/older"
"$wt" bench model --all --only copy_bytes --before "$scratch/older" >"$scratch/added" || fail "--before: exit code $?"
grep -qE '^copy_bytes .* - ' "$scratch/added" || fail "a new kernel has a figure of before: $(cat "$scratch/added")"
echo nonsense >"$scratch/older"
"$wt" bench model --before "$scratch/older" >/dev/null 2>&1 && fail "a file that is no table is taken"
"$wt" bench model --before "$scratch/none" >/dev/null 2>&1
[ $? -eq 3 ] || fail "a missing table: exit code is not 3"
exit $bad
