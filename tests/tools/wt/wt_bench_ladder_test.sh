#!/usr/bin/env bash
# wt bench ladder: every rung of a kernel is there, the plainest first, one is the chosen one; on simt
# the counters take the place of times; --model times whole steps. Usage: wt_bench_ladder_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
bad=0
fail() { echo "FAILED: $*"; bad=1; }

out=$("$wt" bench ladder --op softmax --scale small --windows 1) || fail "exit code $?"
for contract in softmax_forward softmax_backward; do
  grep -q "^$contract " <<<"$out" || fail "no ladder of $contract"
done
rows=$("$wt" bench ladder --op softmax_forward --scale small --windows 1 --json) || fail "--json"
grep -q '"bench":"softmax_forward","impl":"reference"' <<<"$rows" || fail "no reference: $rows"
head -n 1 <<<"$rows" | grep -q '"impl":"reference"' || fail "the plainest is not the first"
shapes=$(grep -o '"shape":"[^"]*"' <<<"$rows" | sort -u | wc -l)
[ "$(grep -c '"chosen":1' <<<"$rows")" -eq "$shapes" ] || fail "not one chosen rung a size: $rows"

said=$("$wt" bench ladder --op softmax_froward 2>&1)
[ $? -eq 2 ] || fail "--op softmax_froward: exit code is not 2"
grep -q softmax_forward <<<"$said" || fail "the near name is not said: $said"
"$wt" bench ladder >/dev/null 2>&1
[ $? -eq 2 ] || fail "without --op: exit code is not 2"

# In whole steps: every variant, and one as the library chooses.
out=$("$wt" bench ladder --model mlp_tiny --op matmul --op sort --windows 1) || fail "--model: $?"
grep -q '^matmul, 8 launches a step, chosen: ' <<<"$out" || fail "the step's products: $out"
grep -q '^  reference  .* of the step as chosen$' <<<"$out" || fail "no reference in steps: $out"
grep -q '^sort: no launch in a step of mlp_tiny$' <<<"$out" || fail "sort is not told: $out"
rows=$("$wt" bench ladder --model mlp_tiny --op matmul --windows 1 --json) || fail "--model --json"
for impl in matmul:chosen matmul:reference; do
  grep -q "\"bench\":\"mlp_tiny\",\"impl\":\"$impl\"" <<<"$rows" || fail "no $impl: $rows"
done
said=$("$wt" bench ladder --model mlp_tini --op matmul 2>&1)
[ $? -eq 2 ] || fail "--model mlp_tini: exit code is not 2"
grep -q mlp_tiny <<<"$said" || fail "the near model is not said: $said"
said=$("$wt" bench ladder --model mlp_tiny --op matmul --device simt 2>&1)
[ $? -eq 2 ] || fail "--model on simt: exit code is not 2: $said"

if [ -x "${wt%/*}/wt_race" ]; then
  out=$("$wt" bench ladder --op softmax_forward --device simt) || fail "simt: exit code $?"
  grep -q '^softmax_forward  *naive .* of ' <<<"$out" || fail "no counters on simt: $out"
fi
exit $bad
