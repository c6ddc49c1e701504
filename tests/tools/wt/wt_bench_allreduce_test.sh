#!/usr/bin/env bash
# wt bench allreduce: sizes, figures as nccl-tests counts them, a check that sees a wrong value; the
# model of the wires is waited for; --paper says that it models, and its page has what it says.
# wt bench overlap: times, picture and trace. wt bench scaling: its rows. Usage: wt_bench_allreduce_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
number() { grep -o "\"$2\":[-+.e0-9]*" <<<"$1" | cut -d: -f2; }

# Three sizes, all collectives and some dtypes, on 3 ranks that do not divide them.
for collective in all_reduce reduce_scatter all_gather broadcast; do
  for dtype in f32 bf16 u8; do
    rows=$("$wt" bench allreduce --collective $collective --dtype $dtype --ranks 3 --from 1KiB \
      --to 16KiB --samples 2 --json 2>&1) || fail "$collective $dtype: exit code $?: $rows"
    [ "$(grep -c '"check":"ok"' <<<"$rows")" -eq 3 ] || fail "$collective $dtype: not 3 rows: $rows"
    [ "$(number "$rows" ranks | sort -u)" = 3 ] || fail "$collective $dtype: ranks: $rows"
  done
  case $collective in all_reduce) factor=4/3 ;; broadcast) factor=1 ;; *) factor=2/3 ;; esac
  paste -d' ' <(number "$rows" busbw_gb_s) <(number "$rows" algbw_gb_s) |
    awk "{r = \$1 / \$2 - $factor; if (r > 1e-6 || r < -1e-6) exit 1}" ||
    fail "$collective: busbw is not algbw times $factor: $rows"
done
# bytes / time.
sed -E 's/.*"median_us":([^,]*),.*"algbw_gb_s":([^,]*),.*"bytes":([^,]*),.*/\1 \2 \3/' <<<"$rows" |
  awk '{r = $3 / $1 * 1e-3 / $2 - 1; if (r > 1e-6 || r < -1e-6) exit 1}' || fail "algbw: $rows"

rows=$("$wt" bench allreduce --algorithm ring,tree,chain --ranks 4 --from 4KiB --to 4KiB \
  --samples 2 --json) || fail "algorithms: exit code $?"
[ "$(grep -o '"algorithm":"[a-z]*"' <<<"$rows" | tr '\n' ' ')" = \
  '"algorithm":"ring" "algorithm":"tree" "algorithm":"chain" ' ] || fail "algorithms: $rows"
# One rank has nobody to wait for.
"$wt" bench allreduce --ranks 1 --from 1 --to 64 --samples 1 >/dev/null || fail "1 rank: $?"

# A flipped bit is found, counted, and ends in exit code 1.
said=$("$wt" bench allreduce --plant-error --from 1KiB --to 1KiB --samples 1 --json)
[ $? -eq 1 ] || fail "a wrong result: exit code is not 1"
grep -q '"check":"1 of 256 elements are wrong"' <<<"$said" || fail "a wrong result: $said"

# 4 MiB over links of 1 GB/s: a ring of 2 sends 2 MiB twice, so that it takes 4 ms and more.
rows=$("$wt" bench allreduce --ranks 2 --algorithm ring --bandwidth 1 --from 4MiB --to 4MiB \
  --samples 2 --json) || fail "--bandwidth: exit code $?"
awk "BEGIN {exit !($(number "$rows" min_us) >= 4194)}" || fail "--bandwidth is not waited for: $rows"
awk "BEGIN {exit !($(number "$rows" busbw_gb_s) <= 1)}" || fail "more than the link has: $rows"
text=$("$wt" bench allreduce --latency 500 --ranks 2 --from 1KiB --to 1KiB --samples 2)
grep -q "^wires' model: 500 us a message, no limit a link" <<<"$text" || fail "the model: $text"

for wrong in "--from 0" "--to 1KiB --from 2KiB" "--factor 1" "--ranks 0" "--dtype f8_e4m3" \
  "--algorithm rings" "--paper --ranks 2" "--latency -1"; do
  "$wt" bench allreduce $wrong >/dev/null 2>&1
  [ $? -eq 2 ] || fail "$wrong: exit code is not 2"
done
"$wt" bench allreduce --to 4096TiB >/dev/null 2>&1
[ $? -eq 2 ] || fail "more than there is: exit code is not 2"

# The model: the same text every time, which is the page's.
"$wt" bench allreduce --paper >"$here/paper" || fail "--paper: exit code $?"
grep -q '^modelled, not measured' "$here/paper" || fail "--paper does not say that it models"
sed -n '/^```text$/,/^```$/p' "$root/docs/distributed_model.md" | sed '1d;$d' |
  diff - "$here/paper" || fail "docs/distributed_model.md has another table than wt bench allreduce --paper"
rows=$("$wt" bench allreduce --paper --json) || fail "--paper --json: exit code $?"
if grep -v '"impl":"modelled"' <<<"$rows" | grep -q .; then fail "a line is not called modelled"; fi
[ "$(number "$rows" ranks | sort -nu | tr '\n' ' ')" = "8 64 1024 " ] || fail "GPUs: $rows"

out=$("$wt" bench overlap --width 64 --layers 2 --batch 8 --bucket 16KiB --steps 3 --ranks 3 \
  --latency 20 --bandwidth 0.1 --out "$here/step.svg" --out "$here/step.json") ||
  fail "overlap: exit code $?"
for line in "computation alone " "communication alone " "step " "of it waits (exposed) "; do
  grep -q "^$line .* ms (p10" <<<"$out" || fail "overlap says nothing of $line: $out"
done
grep -q '20 us a message, 0.1 GB/s a link' <<<"$out" || fail "overlap: the model: $out"
python3 - "$here/step.svg" "$here/step.json" <<'PY' || fail "overlap: its files"
import json, sys, xml.dom.minidom
xml.dom.minidom.parse(sys.argv[1])
events = [e for e in json.load(open(sys.argv[2]))["traceEvents"] if e["ph"] == "X"]
for rank in range(3):
    mine = [e for e in events if e["pid"] == rank]
    kinds = [e["cat"] for e in mine]
    for kind in ("forward", "backward", "wait", "step"):
        assert kind in kinds, (rank, kind)
    buckets = sorted({e["args"]["bucket"] for e in mine if e["cat"] == "bucket"})
    assert buckets == list(range(len(buckets))) and len(buckets) >= 3, buckets
    assert any(e["cat"] == "chunk" for e in mine), "no chunks"
    # The lane of computation: one thing at a time.
    lane = sorted((e["ts"], e["ts"] + e["dur"]) for e in mine if e["tid"] == 1)
    assert all(a[1] <= b[0] + 1e-3 for a, b in zip(lane, lane[1:])), lane
PY
row=$("$wt" bench overlap --width 16 --layers 1 --batch 2 --steps 1 --json) || fail "overlap --json"
for key in compute_us communication_us exposed_us against_floor against_possible against_serial; do
  [ -n "$(number "$row" $key)" ] || fail "overlap --json has no $key: $row"
done
"$wt" bench overlap --out "$here/step.png" >/dev/null 2>&1
[ $? -eq 2 ] || fail "overlap --out step.png: exit code is not 2"
"$wt" bench overlap --ranks 1 >/dev/null 2>&1
[ $? -eq 2 ] || fail "overlap --ranks 1: exit code is not 2"
# Every link takes 2 ms a message, and computation next to nothing: a step is as long as its messages
# (buckets, and what ranks have to agree on), and is that beside the same computation without any.
rows=$("$wt" bench scaling --ranks 1,3 --width 16 --layers 1 --batch 2 --turns 2 --latency 2000 --json) ||
  fail "scaling: exit code $?: $rows"
[ "$(number "$rows" ranks | tr '\n' ' ')" = "1 3 " ] || fail "scaling: ranks: $rows"
one=$(head -1 <<<"$rows") three=$(tail -1 <<<"$rows")
awk "BEGIN {exit !($(number "$three" min_us) >= 4000 && $(number "$three" replicated_us) >= 4000)}" ||
  fail "scaling: the model of the links is not waited for: $three"
awk "BEGIN {exit !($(number "$three" efficiency) < 0.75 && $(number "$three" of_compute) > 1.3)}" ||
  fail "scaling: messages cost nothing: $three"
[ -n "$(number "$one" efficiency)" ] && [ -z "$(number "$one" replicated_us)" ] ||
  fail "scaling: one rank has nobody to copy its model to: $one"
text=$("$wt" bench scaling --ranks 2 --width 16 --layers 1 --batch 2 --turns 1 --bandwidth 5) ||
  fail "scaling as text: exit code $?"
grep -q "^wires' model: 0 us a message, 5 GB/s a link" <<<"$text" || fail "scaling: the model: $text"
grep -qE '^ +2 +[0-9.]+ +[0-9.]+ +[0-9.]+ % ' <<<"$text" || fail "scaling: no row: $text"
for wrong in "--ranks 0" "--ranks 1,x" "--turns 0" "--bandwidth -1" "--bucket 1"; do
  "$wt" bench scaling $wrong >/dev/null 2>&1
  [ $? -eq 2 ] || fail "scaling $wrong: exit code is not 2"
done
exit $bad
