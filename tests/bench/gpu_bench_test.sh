#!/usr/bin/env bash
# wt_gpu_bench on simt: what tools/gpu_gate.sh relies on when a process is cut, hangs or fails.
# Values and times are other tests' matter.
#
#   gpu_bench_test.sh WT_GPU_BENCH
set -euo pipefail
bench=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() {
  echo "FAILED: $*"
  [ ! -s "$here/out" ] || tail -20 "$here/out"
  exit 1
}
expect() {  # CODE TEXT ARGUMENTS...: the program ends with this code and says this
  local want=$1 text=$2 code=0
  shift 2
  "$bench" "$@" >"$here/out" 2>&1 || code=$?
  [ "$code" -eq "$want" ] || fail "$*: exit code $code, not $want"
  grep -qF -- "$text" "$here/out" || fail "$*: no \"$text\""
}
rows() {  # EXPRESSION in Python over `rows`, what is in the file: each line is JSON, and it is true
  python3 - "$file" "$1" <<'PY' || fail "rows: $1"
import json, sys
with open(sys.argv[1]) as f:
    text = f.read()
assert text.endswith("\n"), "the last row is torn"
rows = [json.loads(line) for line in text.splitlines()]
contracts = list(dict.fromkeys(r["impl"].split(":")[0] for r in rows))
assert eval(sys.argv[2]), [(r["bench"], r["impl"], r.get("check")) for r in rows]
PY
}
fresh() { file=$(mktemp "$here/rows.XXXX"); }
simt=(--device simt)
three=(check "${simt[@]}" --only "relu,softmax_forward,sum")

# --- check: order, names, rows ---
fresh
expect 0 "compared with the cpu, 0 wrong, 0 failed" "${three[@]}" --json "$file"
[ "$(grep BEGIN "$here/out" | paste -sd' ')" = "BEGIN relu BEGIN sum BEGIN softmax_forward" ] ||
  fail "another order"
rows 'contracts == ["relu", "sum", "softmax_forward"] and all(r["check"] == "ok" for r in rows)'
rows 'all(r["bench"] == "check" and r["device"] == "simt" and r["dtype"] for r in rows)'
rows 'all(r["shape"] for r in rows)'
all=$(wc -l <"$file")
fresh
expect 0 "0 wrong" "${three[@]}" --best --json "$file"
rows 'len(rows) == len({(r["impl"].split(":")[0], r["shape"], r["dtype"]) for r in rows})'
[ "$(wc -l <"$file")" -lt "$all" ] || fail "--best compares all variants"
fresh
expect 0 "0 wrong" "${three[@]}" --skip sum,relu --without naive --json "$file"
rows 'contracts == ["softmax_forward"] and not any(r["impl"].endswith(":naive") for r in rows)'
expect 1 "0 launches" "${three[@]}" --skip relu,sum,softmax_forward

# --- what is left goes on ---
expect 3 "BEGIN relu" "${three[@]}" --for 0.000001
[ "$(tail -n 1 "$here/out")" = "LEFT: from sum" ] || fail "the last line names what is left"
expect 3 "BEGIN sum" "${three[@]}" --for 0.000001 --from sum
expect 0 "BEGIN softmax_forward" "${three[@]}" --for 0.000001 --from softmax_forward
expect 1 "LEFT: from sum" "${three[@]}" --for 0.000001 --plant nan@relu
expect 3 "LEFT: from softmax_forward" kernels "${simt[@]}" --scale small --seconds 0.0001 \
  --for 0.000001 --only sum,softmax_forward

# --- planted faults: the others are compared all the same ---
fresh
expect 1 "FAILED: check sum:" "${three[@]}" --plant fail@sum --json "$file"
rows 'contracts == ["relu", "sum", "softmax_forward"]'
failed='r["check"] == "FAILED: InternalError: planted"'
rows "all(($failed) == r['impl'].startswith('sum:') for r in rows)"
fresh
expect 1 "WRONG: sum" "${three[@]}" --plant nan@sum --json "$file"
wrong='r["check"].startswith("WRONG: relative error inf")'
rows "all($wrong == r['impl'].startswith('sum:') for r in rows)"
rows 'contracts[-1] == "softmax_forward"'
fresh
expect 1 "OUT OF MEMORY: check sum:" "${three[@]}" --plant memory@sum --json "$file"
failed='r["check"].startswith("OUT OF MEMORY: ")'
rows "all($failed == r['impl'].startswith('sum:') for r in rows)"
fresh
expect 6 "FAILED: check sum:" "${three[@]}" --plant crash@sum --json "$file"
rows 'contracts == ["relu", "sum"] and rows[-1]["check"].startswith("FAILED: DeviceError: ")'
rows 'sum(r["check"] != "ok" for r in rows) == 1'
[ "$(grep -c BEGIN "$here/out")" -eq 2 ] || fail "a process without a device went on"

# --- a hang, and a kill anywhere: what was done is in the file, what was begun is named ---
fresh
"$bench" "${three[@]}" --plant hang@softmax_forward --json "$file" >"$here/out" 2>&1 &
process=$!
for _ in $(seq 200); do
  grep -q "BEGIN softmax_forward" "$here/out" && break
  sleep 0.05
done
sleep 0.1
kill -0 $process || fail "a planted hang came back"
kill -9 $process
wait $process 2>/dev/null || true
[ "$(tail -n 1 "$here/out")" = "BEGIN softmax_forward" ] || fail "the last line is not what hangs"
rows 'contracts == ["relu", "sum"]'

# --- ceilings ---
mkdir "$here/disk"
fresh
expect 0 "ceiling_copy" ceilings "${simt[@]}" --seconds 0.001 --json "$file" --disk "$here/disk"
rows '[r["gb_s"] > 0 for r in rows if r["bench"] == "ceiling_copy"] == [True]'
launches='[r["impl"] for r in rows if r["bench"] == "ceiling_launch"]'
rows "$launches == ['issue', 'back_to_back', 'round_trip']"
rows '[r["impl"].split(",")[0] for r in rows if r["bench"] == "ceiling_disk"] == ["write", "read"]'
rows 'not any(r["bench"] in ("ceiling_gemm", "ceiling_transfer") for r in rows)'
[ -z "$(ls -A "$here/disk")" ] || fail "the measured file is still there"
fresh
expect 0 "ceiling_copy" ceilings "${simt[@]}" --seconds 0.001 --json "$file" --disk "$here/none"
rows '"SKIPPED: " in rows[-1]["check"] and "No such file" in rows[-1]["check"]'

# Of another run: its figures are divided by, torn lines and other devices' rows are passed over.
cat >"$here/ceilings" <<'ROWS'
{"bench":"ceiling_copy","impl":"memcpy","device":"simt","dtype":"u8","gb_s":5,"more":{"a":[1]}}
{"bench":"ceiling_copy","impl":"memcpy","device":"simt","dtype":"u8","gb_s":7
{"bench":"ceiling_copy","impl":"memcpy","device":"simt","dtype":"u8","gb_s":4000}
{"bench":"ceiling_gemm","impl":"cublaslt","device":"simt","dtype":"bf16","tflop_s":0.003}
{"bench":"ceiling_gemm","impl":"cublaslt","device":"simt","dtype":"f16","tflop_s":0.002}
{"bench":"ceiling_gemm","impl":"cublaslt","device":"simt","dtype":"tf32","tflop_s":0.004}
{"bench":"ceiling_gemm","impl":"cublaslt","device":"simt","dtype":"f32","tflop_s":0.001}
{"bench":"ceiling_copy","impl":"memcpy","device":"cuda:0","dtype":"u8","gb_s":3000}
ROWS
small=(kernels "${simt[@]}" --scale small --seconds 0.0001)
fresh
expect 0 "% of copy" "${small[@]}" --only sum,matmul --ceilings "$here/ceilings" --json "$file"
rows 'contracts and all(r["roof"] == 4000 for r in rows if r["bench"] == "sum")'
for roof in "'f32', 0.001" "'f16', 0.002" "'bf16', 0.003"; do
  rows "($roof, 'gemm') in {(r['dtype'], r['roof'], r['bound']) for r in rows}"
done
rows 'all(r["bound"] == "gemm" for r in rows if r["bench"] == "matmul")'
rows '{r["bench"] for r in rows} == {"sum", "matmul"}'
fresh
expect 0 "ceiling_copy" "${small[@]}" --only sum --skip matmul --json "$file"
rows '{"ceiling_copy", "ceiling_launch", "sum"} == {r["bench"] for r in rows}'
expect 2 "cannot be read" "${small[@]}" --only sum --ceilings "$here/none"
fresh
two=("${small[@]}" --only "sum,relu" --ceilings "$here/ceilings")
expect 1 "WRONG: NaN left" "${two[@]}" --plant nan@sum --json "$file"
rows 'all(r["check"] == ("ok" if r["bench"] == "relu" else "WRONG: NaN left") for r in rows)'
expect 1 "FAILED: sum" "${two[@]}" --plant fail@sum
expect 6 "FAILED: sum" "${two[@]}" --plant crash@sum

# --- probe, step, dispatch ---
fresh
expect 0 "warptape" probe "${simt[@]}" --json "$file"
rows '[(r["bench"], r["version"] > "") for r in rows] == [("probe", True)]'
export CUDA_VISIBLE_DEVICES=
expect 77 "SKIPPED: " probe
expect 77 "SKIPPED: " check --only sum
unset CUDA_VISIBLE_DEVICES
step=(step "${simt[@]}" --scale small --seconds 0.001 --windows 2 --model mlp_small)
fresh
for mode in eager captured; do expect 0 "mlp_small" "${step[@]}" --mode $mode --json "$file"; done
rows '[r["impl"] for r in rows] == ["warptape eager", "warptape captured"]'
rows 'all(r["windows"] == 2 for r in rows)'
rows 'abs(rows[0]["check_loss"] - rows[1]["check_loss"]) < 1e-4 and rows[0]["dtype"] == "f32"'
rows 'rows[0]["ratio"] is None'
fresh
expect 0 "nan" "${step[@]}" --plant nan@mlp_small --ceilings "$here/ceilings" --json "$file"
rows 'rows[0]["check_loss"] == "NaN"'
rows 'rows[0]["roof"] == 0.001 and abs(rows[0]["ratio"] - rows[0]["tflop_s"] / 0.001) < 1e-9'
expect 1 "planted" "${step[@]}" --plant fail@mlp_small
expect 4 "OutOfMemory" "${step[@]}" --plant memory@mlp_small
expect 6 "DeviceError" "${step[@]}" --plant crash@mlp_small
expect 77 "SKIPPED: " "${step[@]}" --precision tf32
fresh
expect 0 "dispatch_add" dispatch "${simt[@]}" --json "$file"
rows 'len(rows) == 2'

# --- wrong command lines ---
expect 2 "usage: " measure
expect 2 "usage: "
expect 2 "not understood: --page" check --page x
expect 2 "needs a value" check --only
expect 2 "did you mean 'sum'?" "${three[@]}" --skip summ
expect 2 "no contract is called 'summ'" check "${simt[@]}" --only summ
expect 2 "no row of bench/gpu is called nothing" check "${simt[@]}" --from nothing
expect 2 "no contract is called 'nothing'" "${three[@]}" --plant fail@nothing
expect 2 "no fault is called 'nans'; did you mean 'nan'?" "${three[@]}" --plant nans@sum
expect 2 "KIND@PLACE" "${three[@]}" --plant nan
expect 2 "takes no --plant" ceilings "${simt[@]}" --plant nan@sum
expect 2 "no training step is called 'sum'" "${step[@]}" --plant nan@sum
expect 2 "step needs --model" step "${simt[@]}"
expect 2 "eager or captured" "${step[@]}" --mode compiled
expect 2 "--windows: not '1.5'" "${step[@]}" --windows 1.5
expect 2 "--for: not '0'" "${three[@]}" --for 0
expect 2 "--seconds: not '1x'" "${three[@]}" --seconds 1x
expect 8 "cannot be written" "${three[@]}" --json "$here/none/rows"
echo "wt_gpu_bench: passed"
