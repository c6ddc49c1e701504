#!/usr/bin/env bash
# `wt memory` from outside: every recipe, both devices, --fit, --svg, limits and exit codes.
# Usage: wt_memory_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-memory-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
field() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" | tail -n 1; }
tiny="--set layers=1 --set heads=2 --set channels=16 --set context=16"

# adds_up ARGS...: one JSON line whose categories add up and whose prediction is within 3 %
adds_up() {
  local json p m sum
  json=$("$wt" memory "$@" --json) || { fail "wt memory $*: exit code $?"; return; }
  [ "$(wc -l <<<"$json")" -eq 1 ] || fail "wt memory $*: more than a line"
  p=$(field predicted_bytes <<<"$json") m=$(field measured_bytes <<<"$json")
  sum=$(sed 's/.*"categories":{//' <<<"$json" | grep -o ':[0-9]*' |
    awk -F: '{ sum += $2 } END { printf "%d", sum }')
  echo "$*: predicted $p, measured $m, categories $sum"
  [ "$sum" = "$m" ] || fail "$*: categories are $sum of $m bytes"
  awk -v p="${p:-0}" -v m="${m:-1}" 'BEGIN { exit !(p > 0.97 * m && p < 1.03 * m) }' ||
    fail "$*: predicted $p, measured $m"
}
for device in cpu simt; do
  adds_up charlm --batch 4 --device $device $tiny
  adds_up fashion --batch 4 --device $device --set model=mlp
done
adds_up charlm --batch 4 --device simt $tiny --offload
adds_up cifar --batch 4 --set width=8
adds_up fashion --batch 4 --set width=8
adds_up optimizer-race --batch 8

expect() {  # expect CODE TEXT ARGS...: exit code, and a part of what is said
  local code=$1 text=$2 rc
  shift 2
  "$wt" memory "$@" >"$here/out" 2>&1
  rc=$?
  [ $rc -eq "$code" ] || fail "wt memory $*: exit code $rc, expected $code: $(cat "$here/out")"
  grep -qF -- "$text" "$here/out" || fail "wt memory $*: no '$text' in: $(cat "$here/out")"
}
expect 0 "activations at the peak, by operator" charlm --batch 4 $tiny --svg "$here/t.svg"
grep -q "</svg>" "$here/t.svg" || fail "no picture"
grep -q "^spared in a step, by rule$" "$here/out" || fail "no rules"
grep -Eq "^ +[0-9.]+ MiB +[1-9][0-9]* tensors  reuse$" "$here/out" || fail "nothing was reused"
grep -q "^nothing by bit_mask, recompute, invert, offload$" "$here/out" || fail "no idle rules"
reuse() { "$wt" memory charlm --batch 4 $tiny --json "$@" | field reuse; }
[ "$(reuse)" -gt 0 ] && [ "$(reuse --dry-run)" -gt 0 ] || fail "reuse: $(reuse), $(reuse --dry-run)"
expect 0 "a activation" charlm --batch 4 $tiny --dry-run
expect 0 "optimizer-race with adam" optimizer-race --batch 8 --dry-run
expect 0 "the largest that is predicted to fit into 4096 KiB" charlm $tiny --fit 4MiB
expect 4 "a batch of one sample is predicted to take" charlm $tiny --fit 100KiB
expect 4 "Try --micro-batches" charlm --batch 64 $tiny --memory-limit 2MiB
expect 2 "and cpu is the host" charlm --offload $tiny --device cpu
expect 2 "is no number of bytes" charlm --fit much
expect 2 "did you mean 'charlm'" charml
expect 2 "--fit" charlm --fit 1MiB --memory-limit 1MiB
expect 2 "Try --fit" charlm --dry-run --memory-limit 1MiB
expect 3 "/no/such/file" charlm --data /no/such/file
# What is said to fit is what JSON has, and one sample more does not.
n=$("$wt" memory charlm $tiny --fit 4MiB --json | field batch)
at=$("$wt" memory charlm $tiny --batch "$n" --dry-run --json | field predicted_bytes)
above=$("$wt" memory charlm $tiny --batch $((n + 1)) --dry-run --json | field predicted_bytes)
echo "batch $n takes $at bytes, one more $above"
[ "$at" -le $((4 << 20)) ] && [ "$above" -gt $((4 << 20)) ] || fail "batch $n is not the largest"
# Row 33: what docs/memory.md says of SGD, AdamW and mixed precision. The workspace is that of the
# processor's matrix products: its vectors and threads make a few kB of it.
page=$(cd "${0%/*}/../../.." && pwd)/docs/memory.md
rows=0
while IFS='|' read -r _ name parameter gradient optimizer activation workspace sum _; do
  method=${name%%,*} precision=${name##* }
  rows=$((rows + 1))
  json=$("$wt" memory charlm --batch 16 --optimizer ${method// /} --precision "${precision:-f32}" --dry-run --json)
  # says CATEGORY MIB WITHIN: the page has what is predicted
  says() {
    local bytes
    bytes=$(field "$1" <<<"$json")
    awk -v b="$bytes" -v mib="$2" -v by="$3" 'BEGIN { d = b / 1048576 - mib; exit !(d < by && d > -by) }' ||
      fail "$name: docs/memory.md has $1 $2 MiB, predicted are $bytes bytes"
  }
  for category in parameter gradient optimizer activation; do says $category "${!category}" 0.006; done
  says workspace "$workspace" 0.1
  says predicted_bytes "$sum" 0.1
done < <(sed -nE '/^\| (sgd|adamw), /s/ +\|/|/gp' "$page")
[ $rows -eq 4 ] || fail "docs/memory.md has $rows rows of optimizers and precisions"
exit $bad
