#!/usr/bin/env bash
# `wt train optimizer-race | precision-race` from outside. Usage: race_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-race-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
tiny="--batch 16 --set model=mlp --set width=4 --set held_out=50"

"$wt" train optimizer-race $tiny --steps 20 --set seeds=2 --out "$here/a" >"$here/out" 2>"$here/err" ||
  fail "exit code $?: $(cat "$here/err")"
for name in sgd momentum adam adamw adagrad rmsprop lion nadam radam muon; do
  grep -q "^$name  *[0-9.e-]*  *[0-9.]* +- [0-9.]* " "$here/out" || fail "no row of $name: $(cat "$here/out")"
done
tail -n 1 "$here/out" | grep -q '^{"recipe":"optimizer-race",.*"runs_finished":20,' || fail "the last line is no JSON"
[ "$(wc -l <"$here/a/race.csv")" = $((1 + 20 * 21)) ] || fail "race.csv has $(wc -l <"$here/a/race.csv") lines"
for f in race.svg report.html; do [ -s "$here/a/$f" ] || fail "no $f"; done
"$wt" train optimizer-race $tiny --steps 20 --out "$here/a" >/dev/null 2>"$here/err"
[ $? -eq 8 ] || fail "another race may write there"
"$wt" train optimizer-rase >/dev/null 2>"$here/err"
[ $? -eq 2 ] && grep -q "did you mean 'optimizer-race'" "$here/err" || fail "near name: $(cat "$here/err")"

"$wt" train precision-race $tiny --steps 20 --set seeds=2 --out "$here/p" >"$here/out" 2>"$here/err" ||
  fail "exit code $?: $(cat "$here/err")"
for name in f32 f16 bf16; do grep -q "^$name  *0.0" "$here/out" || fail "no row of $name: $(cat "$here/out")"; done
tail -n 1 "$here/out" | grep -q '^{"recipe":"precision-race",.*"runs_finished":6,' || fail "the last line is no JSON"

# Ctrl-C in the middle: what is there is written, the exit code says so.
"$wt" train optimizer-race $tiny --steps 1000000 --set lr_sgd=0 --quiet --out "$here/b" >"$here/out" 2>"$here/err" &
pid=$!
for _ in $(seq 100); do [ -e "$here/b/LOCK" ] && break; sleep 0.05; done
sleep 0.5
kill -INT $pid
wait $pid
rc=$?
[ $rc -eq 130 ] || fail "exit code $rc after Ctrl-C"
grep -q "interrupted after 1 of 30 runs; what there is has been written" "$here/err" || fail "$(cat "$here/err")"
[ "$(wc -l <"$here/b/race.csv")" -ge 2 ] || fail "race.csv is empty after Ctrl-C"
[ -s "$here/b/report.html" ] || fail "no report after Ctrl-C"
[ -z "$(find "$here" -name '*.tmp-*')" ] || fail "temporary files stay"
exit $bad
