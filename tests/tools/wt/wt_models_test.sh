#!/usr/bin/env bash
# `wt models` from outside: the table, a JSON line a model, and what is refused.
# Usage: wt_models_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-models-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }

"$wt" models --batch 2 --json >"$here/all" || fail "wt models --json: exit code $?"
"$wt" models --batch 2 >"$here/table" || fail "wt models: exit code $?"
lines=$(wc -l <"$here/all")
[ "$lines" -ge 18 ] || fail "$lines models"
[ "$(wc -l <"$here/table")" -eq $((lines + 1)) ] || fail "the table has another number of rows"
while IFS= read -r line; do
  for key in model summary parameters flops inputs classes step_bytes weights; do
    grep -q "\"$key\":" <<<"$line" || fail "no $key in $line"
  done
  name=$(sed 's/.*"model":"\([a-z0-9_]*\)".*/\1/' <<<"$line")
  grep -q "^$name " "$here/table" || fail "$name is not in the table"
  # Weights, gradients and two moments lie there at least.
  number() { sed -n "s/.*\"$1\":\([0-9.e+]*\).*/\1/p" <<<"$line"; }
  awk -v p="$(number parameters)" -v b="$(number step_bytes)" 'BEGIN { exit !(b > 16 * p) }' ||
    fail "$name: a step of $(number step_bytes) bytes for $(number parameters) parameters"
  awk -v f="$(number flops)" 'BEGIN { exit !(f > 1000) }' || fail "$name: $(number flops) FLOPs"
done <"$here/all"
one=$("$wt" models resnet18 --batch 2 --json)
[ "$one" = "$(grep '"model":"resnet18"' "$here/all")" ] || fail "one alone is another: $one"
small=$("$wt" models resnet18 --batch 2 --json --optimizer sgd | sed 's/.*"step_bytes":\([0-9]*\).*/\1/')
[ "$small" -lt "$(sed 's/.*"step_bytes":\([0-9]*\).*/\1/' <<<"$one")" ] || fail "SGD takes as much as AdamW"

expect() {  # expect CODE TEXT ARGS...
  local code=$1 text=$2 rc
  shift 2
  "$wt" models "$@" >"$here/out" 2>&1
  rc=$?
  [ $rc -eq "$code" ] || fail "wt models $*: exit code $rc, expected $code: $(cat "$here/out")"
  grep -qF -- "$text" "$here/out" || fail "wt models $*: no '$text' in: $(cat "$here/out")"
}
expect 2 "did you mean 'resnet50'" resnet05
expect 2 "an integer of at least 1" --batch 0
expect 2 "adamw" --optimizer adanw
# As ONNX: FOLDER/NAME.onnx, which names its writer, and a sample beside it.
out=$("$wt" models pinn cifar_speedrun --onnx "$here" --sample) || fail "wt models --onnx: exit code $?"
grep -qxF "$here/pinn.onnx" <<<"$out" || fail "--onnx says: $out"
for name in pinn cifar_speedrun; do
  grep -qa "warptape" "$here/$name.onnx" || fail "$name.onnx names no writer"
  [ -s "$here/$name.safetensors" ] || fail "$name has no sample"
done
grep -qa "linears.0.weight" "$here/pinn.onnx" || fail "pinn.onnx does not have its parameters' names"
expect 2 "is of one model" --onnx "$here" --weights "$here/none"
expect 2 "--onnx" --sample
expect 8 "nowhere" pinn --onnx "$here/nowhere"

# models race: a line a model, and what it leaves.
"$wt" models race resnet18_cifar mobilenet_v3_small --batch 2 --size 32 --seconds 0.001 --device cpu --json --out "$here/race" \
  >"$here/raced" || fail "wt models race: exit code $?"
[ "$(wc -l <"$here/raced")" -eq 2 ] || fail "wt models race: $(cat "$here/raced")"
cmp -s "$here/raced" "$here/race/models.jsonl" || fail "models.jsonl has other lines than stdout"
for key in model device batch size parameters flops forward_ms step_ms predicted_bytes measured_bytes; do
  [ "$(grep -c "\"$key\":" "$here/raced")" -eq 2 ] || fail "models race: no $key"
done
grep -q "</svg>" "$here/race/models.svg" && grep -q "mobilenet_v3_small" "$here/race/report.html" || fail "models race: no picture or page"
expect 0 "1 picture of 3 x 32 x 32 on cpu" race resnet18_cifar --batch 1 --size 32 --seconds 0.001 --device cpu
expect 2 "do not go through vit_small_patch16_224" race vit_small_patch16_224 --size 64 --device cpu
expect 2 "resnet18" race resnet81
exit $bad
