#!/usr/bin/env bash
# Rows 45 and 119: wt bench machine measures disk, memory, the way to a device and back (page-locked and
# pageable), products, launches and an all-reduce; keeps them in a file; refuses a damaged one.
# Usage: wt_bench_machine_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
bad=0
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() { echo "FAILED: $*"; bad=1; }
export WT_MACHINE="$here/cache/machine.tsv"
small=(--seconds 0.01 --disk "$here" --disk-size 4MiB --copy-size 1MiB --matrix 32 --ranks 2)

said=$("$wt" bench machine --show 2>&1)
[ $? -eq 3 ] || fail "--show without a file: exit code is not 3"
grep -q 'wt bench machine makes it' <<<"$said" || fail "--show without a file: $said"

"$wt" bench machine --device cpu --device simt "${small[@]}" >"$here/out" || fail "exit code $?: $(cat "$here/out")"
has() { grep -qE "^$1" "$here/out" || fail "no line of '$1' in: $(cat "$here/out")"; }
has 'disk +write +synchronised .* GB/s'
has 'disk +read +(not )?cold .* GB/s'
has 'disk +read +warm .* GB/s'
has 'cpu +copy +1 thread .* GB/s'
for dtype in f32 f64 bf16 f16; do has "cpu +product +exact +$dtype .*32\^3.* GFLOP/s"; done
for how in 'back to back' issue 'round trip'; do has "cpu +launch +$how .* us"; done
has 'cpu +all-reduce +2 ranks .* GB/s'
for way in 'to device' 'to host'; do
  for how in pinned pageable; do has "simt +$way +$how .* GB/s .*host time of the executor"; done
done
grep -q "kept in $WT_MACHINE" "$here/out" || fail "it does not say where the figures are"
[ -z "$(find "$here" -name 'wt_disk_*')" ] || fail "the measured file is still there"
[ -z "$(find "$here/cache" -name '*.tmp-*')" ] || fail "a temporary file is still there"

# A measurement of one part leaves the others as they were.
cp "$WT_MACHINE" "$here/before"
"$wt" bench machine --device cpu --only launch --json "${small[@]}" >"$here/json" || fail "--only: $?"
[ "$(grep -c '"place":"cpu","what":"launch"' "$here/json")" -eq 3 ] || fail "lines: $(cat "$here/json")"
others() { grep -vE '^(date|end)|^cpu	launch' "$1" | sort; }
[ "$(others "$here/before")" = "$(others "$WT_MACHINE")" ] || fail "other parts have changed"
[ "$(grep -c '^cpu	launch' "$WT_MACHINE")" -eq 3 ] || fail "launches: $(grep launch "$WT_MACHINE")"
"$wt" bench machine --show >"$here/shown" || fail "--show: exit code $?"
grep -q '^disk .* GB/s' "$here/shown" || fail "--show: $(cat "$here/shown")"
"$wt" info | grep -q "$WT_MACHINE, .* figures" || fail "wt info does not know the file"
cp "$WT_MACHINE" "$here/before"
"$wt" bench machine --device cpu --only launch --no-file "${small[@]}" >/dev/null || fail "--no-file: $?"
cmp -s "$WT_MACHINE" "$here/before" || fail "--no-file has changed the file"

# Damaged, another machine's: refused with words; a measurement makes it anew.
sed 's/^cpu	copy\(.*\)GB/cpu	copy\1TB/' "$here/before" >"$WT_MACHINE"
said=$("$wt" bench machine --show 2>&1)
[ $? -eq 3 ] || fail "damaged: exit code is not 3"
grep -q 'check sum: the file was damaged or edited' <<<"$said" || fail "damaged: $said"
"$wt" bench machine --device cpu --only copy "${small[@]}" >/dev/null 2>&1 || fail "over a damaged file: $?"
"$wt" bench machine --show >/dev/null || fail "not made anew: exit code $?"

# What cannot be measured is a line that says why.
"$wt" bench machine --device cpu --only disk --disk "$here/none" --no-file >"$here/out"
has 'disk .* - .*not measured: .*none: opening a file: No such file'
"$wt" bench machine --device meta >/dev/null 2>&1
[ $? -eq 2 ] || fail "--device meta: exit code is not 2"
exit $bad
