#!/usr/bin/env bash
# wt bench loader: an epoch by workers, and the same batches from every tier, with what is sent to the
# device and launched there.
# Usage: wt_bench_loader_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
bad=0
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() { echo "FAILED: $*"; bad=1; }
. "$(dirname "$0")/../../support/tiny_fashion.sh"
tiny_fashion "$here/data" 100 20
mkdir "$here/tmp"
export TMPDIR=$here/tmp
common=(--data "$here/data" --batch 16 --epochs 1 --rounds 1 --workers 1)
number() { grep -o "\"$2\":[-+.e0-9]*" <<<"$1" | cut -d: -f2; }

for device in cpu simt; do
  out=$("$wt" bench loader "${common[@]}" --device $device --batches 4 --json 2>&1) ||
    fail "$device: exit code $?: $out"
  [ "$(grep -c '"bench":"loader",' <<<"$out")" -eq 2 ] || fail "$device: not two loaders: $out"
  tiers=$(grep '"bench":"loader_tiers"' <<<"$out")
  [ "$(grep -o '"impl":"[a-z]*"' <<<"$tiers" | tr '\n' ' ')" = \
    '"impl":"disk" "impl":"mapped" "impl":"pinned" "impl":"resident" ' ] || fail "$device: tiers: $out"
  [ "$(number "$tiers" check_loss | sort -u | wc -l)" -eq 1 ] ||
    fail "$device: the tiers' batches differ: $tiers"
  resident=$(grep '"impl":"resident"' <<<"$tiers")
  [ "$(number "$resident" host_to_device_bytes)" = 0 ] || fail "$device: resident sends: $resident"
  [ "$(number "$resident" launches)" = 1 ] || fail "$device: not one launch a batch: $resident"
done
# 16 images of 784 floats and 16 labels of 8 bytes.
for tier in disk mapped pinned; do
  row=$(grep "\"impl\":\"$tier\"" <<<"$tiers")
  [ "$(number "$row" host_to_device_bytes)" = $((16 * 784 * 4 + 16 * 8)) ] ||
    fail "simt: $tier does not send a batch: $row"
done

out=$("$wt" bench loader "${common[@]}" --no-tiers) || fail "--no-tiers: exit code $?"
grep -q resident <<<"$out" && fail "--no-tiers shows them: $out"
"$wt" bench loader --data "$here/nowhere" >/dev/null 2>&1
[ $? -eq 3 ] || fail "no data: exit code is not 3"
"$wt" bench loader "${common[@]}" --device nonsense >/dev/null 2>&1
[ $? -eq 2 ] || fail "no such device: exit code is not 2"
[ -z "$(ls "$here/tmp")" ] || fail "the temporary pack was left behind"
exit $bad
