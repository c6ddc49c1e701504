#!/usr/bin/env bash
# wt bench gemm: a row for each size and layout, every variant beside the library's, one of them the
# chosen one; a variant that would take too long at a size is left out there.
# Usage: wt_bench_gemm_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
bad=0
fail() { echo "FAILED: $*"; bad=1; }

out=$("$wt" bench gemm --size 48 --size 33 --windows 1) || fail "exit code $?"
for row in "33x33x33 nn" "33x33x33 nt" "33x33x33 tn" "48x48x48 nn" "48x48x48 nt" "48x48x48 tn"; do
  grep -q "^$row .*[0-9][*] " <<<"$out" || fail "no chosen variant of $row: $out"
done
[ "$(grep -n '^33' <<<"$out" | tail -1 | cut -d: -f1)" -lt \
  "$(grep -n '^48' <<<"$out" | head -1 | cut -d: -f1)" ] || fail "sizes are not in order: $out"
rows=$("$wt" bench gemm --size 48 --layout tn --dtype bf16 --windows 1 --json) || fail "--json"
grep -q '"impl":"reference",.*"shape":"48x48x48 tn","dtype":"bf16"' <<<"$rows" ||
  fail "no reference: $rows"
[ "$(grep -c '"chosen":1' <<<"$rows")" -eq 1 ] || fail "not one chosen variant: $rows"

# The plainest one makes a few GFLOP/s, of which this takes seventeen.
rows=$("$wt" bench gemm --size 128 --size 2048 --layout nn --windows 1 --json) || fail "large"
grep '2048x2048x2048' <<<"$rows" | grep -q '"impl":"reference"' && fail "2048 by the reference"
grep '2048x2048x2048' <<<"$rows" | grep -q '"chosen":1' || fail "2048 is not there: $rows"

said=$("$wt" bench gemm --device simt 2>&1)
[ $? -eq 2 ] || fail "simt: exit code is not 2"
grep -q 'wt bench counters' <<<"$said" || fail "simt: where its counts are is not said: $said"
"$wt" bench gemm --size 0 >/dev/null 2>&1
[ $? -eq 2 ] || fail "--size 0: exit code is not 2"
"$wt" bench gemm --layout tt >/dev/null 2>&1
[ $? -eq 2 ] || fail "--layout tt: exit code is not 2"
exit $bad
