#!/usr/bin/env bash
# gpu_gate_test.sh stand_ins|emulated BUILD: rehearsals of tools/gpu_gate.sh.
#   stand_ins   all that may go wrong, over stand-ins for its programs (gpu_gate_test.py)
#   emulated    the real programs on the emulated cuda device, small: all parts; then, in parts that run
#               kernels, each kind of fault, planted
set -u
part=$1 build=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
[ "$part" = stand_ins ] && exec python3 "$root/tests/tools/gate/gpu_gate_test.py"
dir=$(mktemp -d)
trap 'kill $watcher 2>/dev/null; rm -rf "$dir"' EXIT
watcher=
failures=0
expect() {  # expect WHAT COMMAND...
  local what=$1
  shift
  "$@" >/dev/null 2>&1 && return
  echo "FAILED: $what"
  failures=$((failures + 1))
  sed 's/^/  /' "$dir/said"
}
export WT_GATE_CLOCK=$dir/clock
export WT_TUNE=off WT_FIRST_USE=off
gate() {  # gate CODE OUT ARGUMENTS...
  local want=$1 out=$2
  shift 2
  echo 0 >"$dir/clock"
  "$root/tools/gpu_gate.sh" "$dir/$out" --with "$build" --emulator "$build" --scale small \
    --only matmul,softmax_forward,sum --tests capture_test --steps mlp_small:f32 "$@" >"$dir/said" 2>&1
  [ $? -eq "$want" ]
}
page() { grep -q -- "$1" "$dir/$out/gpu_gate.md"; }
rows() { grep -c -- "$1" "$dir/$out/gpu_gate.jsonl"; }

out=well
expect "all well: exit code 0" gate 0 $out
for part in probe check tests ceilings steps tune; do
  expect "$part passed" page "| $part | passed"
done
expect "the device is named" page "(emulated)"
expect "it is called a rehearsal" page "Nothing here was measured on a GPU"
for what in '"bench":"probe"' '"bench":"check"' '"bench":"ceiling_copy"' '"impl":"warptape captured"' \
  '"impl":"warptape eager"'; do
  expect "rows: $what" [ "$(rows "$what")" -gt 0 ]
done
expect "tune wrote its file" grep -q "^softmax_forward	" "$dir/$out/tune.tsv"

# A second call has nothing to do.
expect "nothing is left" gate 0 $out

# Cut at ten places: what was measured is kept, and a last call finishes.
out=cut
for after in 0.15 0.3 0.45 0.6 0.75 0.9 1.05 1.2 1.35 1.5; do
  cp "$dir/$out/gpu_gate.jsonl" "$dir/kept" 2>/dev/null || : >"$dir/kept"
  gate 0 $out &
  sleep $after
  pkill -KILL -f "gate.py $dir/$out"
  wait $! 2>/dev/null
  pkill -KILL -f "wt_gpu .* $dir/$out/"  # as when the whole machine goes
  [ -s "$dir/kept" ] || continue
  expect "cut after $after s: rows are kept" cmp -n "$(stat -c %s "$dir/kept")" "$dir/kept" "$dir/$out/gpu_gate.jsonl"
done
expect "cut: a last call finishes" gate 0 $out
for part in probe check tests ceilings steps tune; do
  expect "cut: $part passed" page "| $part | passed"
done

# While the gate waits for something that hangs, 40 seconds pass: longer than it waits.
watch() {
  (
    until grep -q "$1" "$dir/$out/gpu_gate.log" 2>/dev/null; do sleep 0.2; done
    sleep 1
    echo 40 >"$dir/clock"
  ) &
  watcher=$!
}
for kind in fail hang crash nan memory; do
  out=check_$kind
  [ $kind = hang ] && watch "BEGIN softmax_forward"
  expect "check with $kind: exit code 1" gate 1 $out check --plant check:$kind@softmax_forward
  expect "check with $kind: named on the page" page "- check: \*\*softmax_forward\*\*: "
  expect "check with $kind: what came before is kept" [ "$(rows '"impl":"matmul:')" -gt 0 ]
  [ $kind = hang ] || expect "check with $kind: what comes behind ran" [ "$(rows '"impl":"sum:')" -gt 0 ]
done
for kind in fail crash nan memory; do
  out=step_$kind
  expect "step with $kind: exit code 1" gate 1 $out steps ceilings --plant step:$kind@mlp_small
  expect "step with $kind: named on the page" page "- steps: .*mlp_small"
  expect "step with $kind: the others ran" page "| ceilings | passed"
done

# A variant that hangs: its process is ended, it is off, and the others are proved.
tune() {
  LD_LIBRARY_PATH=$build/emulator "$build/wt_gpu" tune --small --op matmul --output "$dir/hang.tsv" \
    --json "$dir/hang.jsonl" --patience 1 >"$dir/said" 2>&1
}
tune &
parent=$!
until [ -e "$dir/hang.tsv.trying" ] || ! kill -0 $parent 2>/dev/null; do sleep 0.01; done
pkill -STOP -f "tune --small --op matmul --output $dir/hang.tsv" --newest
hung=$(cut -f4 "$dir/hang.tsv.trying")
expect "tune ends" wait $parent
expect "tune says that a variant hangs" grep -q "the variant hangs" "$dir/said"
expect "it is off ($hung)" grep -q "^matmul	.*	$hung	failed	" "$dir/hang.tsv"
expect "the others are right" [ "$(grep -c '	right	' "$dir/hang.tsv")" -gt 10 ]
expect "its row is there too" grep -q '"check":"failed"' "$dir/hang.jsonl"

[ "$failures" -eq 0 ] && echo "gpu_gate emulated: passed"
