#!/usr/bin/env bash
# `wt profile` and `wt train --profile` from outside: tables, files, both devices, bad input.
# Usage: wt_profile_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-profile-XXXXXX")
trap 'rm -rf "$here"' EXIT
export WT_MACHINE="$here/machine.tsv"
bad=0
fail() { echo "FAILED: $*"; bad=1; }
mlp="--data synthetic --set model=mlp --batch 8 --quiet"
tiny="--set layers=1 --set heads=2 --set channels=16 --set context=16 --batch 4 --quiet"

# sums_up FILE.csv FILE.json: self times of the profiling thread are within 2 % of the profiled time
sums_up() {
  local seconds  # no field has a comma without --shapes
  seconds=$(sed -n 's/^{"seconds":\([-0-9.e]*\),.*/\1/p' "$2")
  awk -F, -v seconds="$seconds" 'NR > 1 && $7 == 0 { sum += $9 * 1e-9 }
    END { off = sum - seconds; exit !(seconds > 0 && off * off <= (0.02 * seconds) ^ 2) }' "$1" ||
    fail "self times of $1 are not $seconds s"
}

for device in cpu simt; do
  # shellcheck disable=SC2086
  "$wt" profile fashion $mlp --steps 3 --device $device --out "$here/$device" >"$here/out" 2>"$here/err" ||
    fail "wt profile on $device: $(cat "$here/err")"
  for text in "Self CPU time total: " ", 3 steps of " "linear.backward" "data " "adamw_step" "Bound by"; do
    grep -qF -- "$text" "$here/out" || fail "$device: no '$text' in: $(cat "$here/out")"
  done
  head -c 4 "$here/out" | grep -q -- "----" || fail "$device: not the table alone: $(head -n 2 "$here/out")"
  [ "$(ls "$here/$device" | tr '\n' ' ')" = "profile.csv profile.json roofline.html table.txt timeline.html trace.json " ] ||
    fail "$device: files $(ls "$here/$device")"
  sums_up "$here/$device/profile.csv" "$here/$device/profile.json"
done
grep -qF "host time of the executor" "$here/simt/table.txt" || fail "simt's times are not marked"
grep -qF "wt bench machine" "$here/cpu/table.txt" || fail "no word on the roof"

# shellcheck disable=SC2086
"$wt" profile charlm $tiny --steps 2 --nested --shapes >"$here/out" 2>&1 || fail "nested: $(cat "$here/out")"
grep -Eq "^ +linear " "$here/out" || fail "nothing is nested: $(cat "$here/out")"
# shellcheck disable=SC2086
"$wt" profile charlm $tiny --steps 2 --group-by module --rows 3 --sort-by name >"$here/out" 2>&1 ||
  fail "modules: $(cat "$here/out")"
grep -q " more rows" "$here/out" || fail "rows: $(cat "$here/out")"

# shellcheck disable=SC2086
"$wt" train charlm $tiny --steps 8 --profile 3 --out "$here/run" >"$here/out" 2>"$here/err" ||
  fail "wt train --profile: $(cat "$here/err")"
tail -n 1 "$here/out" | grep -q '^{.*}$' || fail "the last line is no JSON: $(tail -n 1 "$here/out")"
grep -qF ", 3 steps of " "$here/out" || fail "no table: $(cat "$here/out")"
[ -s "$here/run/table.txt" ] && [ -s "$here/run/report.html" ] || fail "run: $(ls "$here/run")"
sums_up "$here/run/profile.csv" "$here/run/profile.json"

# A run that ends with an error leaves what it has.
# shellcheck disable=SC2086
"$wt" train charlm $tiny --steps 50 --profile 50 --lr 1e30 --out "$here/nan" >"$here/out" 2>"$here/err"
[ $? -eq 5 ] || fail "a rate of 1e30: $(cat "$here/err")"
grep -qF "linear" "$here/nan/table.txt" || fail "nothing is left of it: $(ls "$here/nan")"

expect() {  # expect CODE TEXT ARGS...: exit code, and a part of what is said
  local code=$1 text=$2 rc
  shift 2
  "$wt" "$@" >"$here/out" 2>&1
  rc=$?
  [ $rc -eq "$code" ] || fail "wt $*: exit code $rc, expected $code: $(cat "$here/out")"
  grep -qF -- "$text" "$here/out" || fail "wt $*: no '$text' in: $(cat "$here/out")"
}
# Pages and commands for other tools (rows 109 and 110).
python3 - "$here/cpu/trace.json" <<'END' || fail "the trace"
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
assert any(e["ph"] == "X" and "linear.backward <- " in e["name"] for e in events)
starts, ends = ({e["id"] for e in events if e["ph"] == ph} for ph in "sf")
assert starts and starts == ends
END
for page in timeline roofline; do
  grep -qF "<title>fashion on simt</title>" "$here/simt/$page.html" || fail "the page $page"
done
expect 0 "--export softmax_backward ./program" profile --ncu softmax.backward
expect 0 "--export relu wt train fashion --device cuda --steps 20 --set model=mlp" profile fashion --ncu relu \
  --set model=mlp
# Row 105: on simt the counters of the kernels as columns, by the program that counts.
if [ -x "${wt%/*}/wt_race" ]; then
  expect 0 "Bank conflicts" profile fashion $mlp --steps 1 --device simt --counters --out "$here/counters"
  awk -F, 'NR > 1 && $1 == "linear" { ok = $24 > 0 && $25 > 0 && $25 <= $24 } END { exit !ok }' \
    "$here/counters/profile.csv" || fail "no sectors of linear: $(cat "$here/counters/profile.csv")"
else
  expect 2 "wt_race" profile fashion $mlp --steps 1 --device simt --counters
fi
expect 2 "Try --device simt" profile fashion $mlp --device cpu --counters
expect 2 "did you mean 'softmax'?" profile --ncu sofmax
expect 2 "recipe is required" profile
expect 2 "did you mean 'cuda_time_total'?" profile charlm --sort-by cuda_time_totl
expect 2 "did you mean 'module'?" profile charlm --group-by modul
expect 2 "Try wt train --profile STEPS" profile charlm --resume auto --out "$here/x"
expect 2 "a profile is of one training" profile optimizer-race
expect 2 "--profile is of one training" train optimizer-race --profile 3
[ $bad -eq 0 ] && echo "profiles are right"
exit $bad
