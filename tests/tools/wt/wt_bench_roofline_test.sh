#!/usr/bin/env bash
# wt bench roofline: a chart and a row for each kernel; the lines of --json are a file that --from reads.
# Usage: wt_bench_roofline_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
bad=0
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() { echo "FAILED: $*"; bad=1; }

"$wt" bench roofline --only add --only softmax_forward --windows 1 --json >"$here/r.json" ||
  fail "--json: exit code $?"
for row in ceiling_copy ceiling_gemm add softmax_forward; do
  grep -q "\"bench\":\"$row\"" "$here/r.json" || fail "no line of $row"
done
out=$("$wt" bench roofline --from "$here/r.json") || fail "--from: exit code $?"
grep -q '^copy [0-9.]* GB/s; products f32 [0-9.]* GFLOP/s' <<<"$out" || fail "no ceilings: $out"
grep -q '^ GFLOP/s$' <<<"$out" && grep -q '|.*/.*' <<<"$out" || fail "no chart: $out"
grep -q '^add .* of copy$' <<<"$out" || fail "no row of add: $out"
[ "$(grep -c '^softmax_forward .* of copy$' <<<"$out")" -eq 3 ] || fail "rows of softmax: $out"

grep -v ceiling_copy "$here/r.json" >"$here/none.json"
said=$("$wt" bench roofline --from "$here/none.json" 2>&1)
[ $? -eq 3 ] || fail "no ceiling: exit code is not 3"
grep -q "none.json: no line of ceiling_copy" <<<"$said" || fail "no ceiling: $said"
"$wt" bench roofline --from "$here/nothing.json" >/dev/null 2>&1
[ $? -eq 3 ] || fail "no file: exit code is not 3"
said=$("$wt" bench roofline --only softmax_froward 2>&1)
[ $? -eq 2 ] || fail "--only softmax_froward: exit code is not 2"
grep -q softmax_forward <<<"$said" || fail "the near name is not said: $said"
exit $bad
