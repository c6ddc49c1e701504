#!/usr/bin/env bash
# wt bench throughput: a row a batch, a knee, JSON and a page; what is refused.
# Usage: wt_bench_throughput_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
bad=0
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() { echo "FAILED: $*"; bad=1; }
common=(fashion --set model=mlp --device cpu --threads 1 --seconds 0.001)

out=$("$wt" bench throughput "${common[@]}" --max-batch 6 --html "$here/t.html" 2>/dev/null) ||
  fail "exit code $?"
for batch in 1 2 4 6; do
  grep -qE "^ +$batch +[0-9.e+-]+ .*\|#.*%" <<<"$out" || fail "no row of batch $batch: $out"
done
[ "$(grep -c '<- knee' <<<"$out")" -eq 1 ] || fail "not one knee: $out"
grep -q '^knee: batch [1246], ' <<<"$out" || fail "the knee is not said: $out"
grep -q '^no larger batch: the largest that was asked for' <<<"$out" || fail "no end: $out"
grep -q ', the knee</th>' "$here/t.html" || fail "the page marks no knee"

json=$("$wt" bench throughput "${common[@]}" --max-batch 2 --json 2>/dev/null) || fail "--json: $?"
grep -q '^{"recipe":"fashion".*"points":\[{"batch":1,.*{"batch":2,.*"knee":[12],' <<<"$json" ||
  fail "JSON: $json"

said=$("$wt" bench throughput "${common[@]}" --memory-limit 10KB 2>&1)
[ $? -eq 4 ] || fail "no memory: exit code is not 4: $said"
grep -q 'not even one sample fits' <<<"$said" || fail "no memory: $said"
said=$("$wt" bench throughput fashoin 2>&1)
[ $? -eq 2 ] || fail "a wrong name: exit code is not 2: $said"
"$wt" bench throughput optimizer-race --max-batch 1 >/dev/null 2>&1
[ $? -eq 2 ] || fail "a race: exit code is not 2"
"$wt" bench throughput "${common[@]}" --max-batch 1 --html "$here/no/t.html" >/dev/null 2>&1
[ $? -eq 8 ] || fail "a page that cannot be written: exit code is not 8"
exit $bad
