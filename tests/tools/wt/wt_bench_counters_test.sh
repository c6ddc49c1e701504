#!/usr/bin/env bash
# wt bench counters: its figures are those that the kernels' access patterns have, its listing shows
# the source, and a build without instrumented kernels says how to get them.
# Usage: wt_bench_counters_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }

said=$("$wt" bench counters --only softmax_froward 2>&1)
[ $? -eq 2 ] || fail "--only softmax_froward: exit code is not 2"
grep -q softmax_forward <<<"$said" || fail "the near name is not said: $said"

# Alone in its folder it has no wt_race beside it.
cp "$wt" "$here/wt"
said=$("$here/wt" bench counters --only softmax_forward 2>&1)
[ $? -eq 2 ] || fail "without wt_race: exit code is not 2"
grep -q "WARPTAPE_FLAVOURS='plain;race'" <<<"$said" || fail "does not say what is missing: $said"

if [ ! -x "${wt%/*}/wt_race" ]; then
  echo "SKIPPED: no wt_race: this build has no instrumented kernels"
  [ $bad -eq 0 ] && exit 77
  exit 1
fi

out=$("$wt" bench counters --only softmax_forward) || fail "exit code $?"
grep -q '^counted on simt, not timed' <<<"$out" || fail "does not say that it counts"
for variant in naive warp block; do
  grep -q "^softmax_forward  *$variant " <<<"$out" || fail "no row for $variant"
done

# Rows of 304 floats: every lane of naive reads a row of its own, one sector for each of its 5 lanes.
rows=$("$wt" bench counters --only softmax_forward --shape 1 --json) || fail "--json: exit code $?"
figure() {  # VARIANT KEY
  grep "\"impl\":\"$1\"" <<<"$rows" | sed -E "s/.*\"$2\":([0-9.]+).*/\1/"
}
is() { [ "$(figure "$1" "$2")" = "$3" ] || fail "$1: $2 is $(figure "$1" "$2"), not $3"; }
is naive contract_bytes 12160  # 5 x 304 floats in and out
is naive load_requests 912     # three passes, one warp
is naive load_units 4560       # 5 sectors each
is naive load_lanes 4560
is naive read_bytes 6080  # every sector once
is warp read_bytes 6080
is warp written_bytes 6080
# A warp reads its row in packs of 16 bytes: no sector twice.
is warp load_units 190
is warp asked_bytes 12160

# The listing: beside the line that loads, its text and its figures.
list=$("$wt" bench counters --only softmax_forward --shape 1 --variant naive --lines --source "$root")
grep -qE '^device load +4 B .* 5\.00 of +1\.00 <- +\| +[0-9]+\| .*largest = max\(largest, A\(x\[i\]\)\)' \
  <<<"$list" || fail "no line of the maximum: $list"
grep -q '^softmax_naive<float>' <<<"$list" || fail "the listing does not name the kernel"
# Waits too, and the kernel's head.
list=$("$wt" bench counters --only softmax_forward --shape 1 --variant block --lines --source "$root")
grep -qE '^__[a-z_]+: [0-9]+ warps +\| +[0-9]+\| ' <<<"$list" || fail "no waits beside their lines: $list"
grep -qE '\| +[0-9]+\| .*__global__' <<<"$list" || fail "the kernel's head is not shown: $list"
# Without the source the places are there all the same.
(cd "$here" && "$wt" bench counters --only softmax_forward --shape 1 --variant naive --lines) |
  grep -q '^softmax.cu' || fail "no listing elsewhere"

said=$("$wt" bench counters --only softmax_forward --variant fast 2>&1)
[ $? -eq 2 ] || fail "--variant fast: exit code is not 2"
grep -q "nothing to count" <<<"$said" || fail "--variant fast: $said"
exit $bad
