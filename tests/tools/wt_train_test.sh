#!/usr/bin/env bash
# `wt train` from outside: predicted memory, exit codes, interruption, kills and resumption, devices
# that follow each other. Usage: wt_train_test.sh PATH_OF_WT PART
set -uo pipefail
wt=$1
part=$2
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-train-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
field() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" | tail -n 1; }
# metrics without what depends on time and memory
history() { sed -E 's/,"items_per_second":[^,}]*,"bytes":[^,}]*//' "$1"; }

memory() {  # the dry run predicts the peak within 3 %
  local device batch p m
  for device in cpu simt; do
    for batch in 8 16 32; do
      p=$("$wt" train charlm --dry-run --device $device --batch $batch 2>/dev/null | field predicted_bytes)
      m=$("$wt" train charlm --steps 3 --quiet --device $device --batch $batch 2>/dev/null | field peak_bytes)
      awk -v p="${p:-0}" -v m="${m:-1}" 'BEGIN { exit !(p > 0.97 * m && p < 1.03 * m) }' ||
        fail "memory on $device, batch $batch: predicted $p, measured $m"
    done
  done
}

expect() {  # expect CODE TEXT ARGS...: exit code, and a part of what stderr says
  local code=$1 text=$2 rc
  shift 2
  "$wt" "$@" >"$here/out" 2>"$here/err"
  rc=$?
  [ $rc -eq "$code" ] || fail "wt $*: exit code $rc, expected $code: $(cat "$here/err")"
  grep -qF -- "$text" "$here/err" || fail "wt $*: no '$text' in: $(cat "$here/err")"
}

errors() {
  expect 2 "did you mean 'charlm'" train charlmm
  expect 2 "did you mean '--steps'" train charlm --stepz 3
  expect 2 "no device is called" train charlm --device gpu
  expect 2 "fashion needs --data" train fashion
  expect 3 "no such folder" train fashion --data "$here/none"
  expect 3 "$here/none" train charlm --data "$here/none" --steps 1
  printf 'abc' >"$here/short"
  expect 3 "too few" train charlm --data "$here/short" --steps 1
  mkdir "$here/idx"
  for f in train-images-idx3-ubyte train-labels-idx1-ubyte; do printf 'junk' >"$here/idx/$f"; done
  expect 3 "not an IDX file" train fashion --data "$here/idx" --steps 1
  printf x >"$here/file"
  expect 8 "$here/file" train charlm --steps 1 --out "$here/file/run"
  [ -e "$here/file/run" ] && fail "something was made under a file"
  expect 2 "f32 only" train charlm --precision f16 --steps 1
  "$wt" train charlm --steps 2 --quiet --out "$here/run" >/dev/null 2>&1 || fail "a plain run"
  expect 8 "another run" train charlm --steps 2 --quiet --out "$here/run"
  expect 2 "started with batch" train charlm --steps 2 --batch 3 --quiet --resume auto --out "$here/run"
}

interrupt() {  # the first Ctrl-C saves and says 130; the same command line goes on
  "$wt" train charlm --steps 3000 --quiet --out "$here/run" >/dev/null 2>"$here/err" &
  local pid=$! i
  for i in $(seq 100); do [ -s "$here/run/metrics.jsonl" ] && break; sleep 0.1; done
  sleep 0.5
  kill -INT $pid
  wait $pid
  local rc=$?
  [ $rc -eq 130 ] || fail "interrupted run: exit code $rc: $(cat "$here/err")"
  ls "$here"/run/ckpt/step-*.safetensors >/dev/null 2>&1 || fail "no checkpoint after an interrupt"
  [ -s "$here/run/report.html" ] || fail "no report after an interrupt"
  ls "$here"/run/ckpt/*.tmp-* 2>/dev/null && fail "a temporary file is left"
}

kills() {  # killed ten times and resumed, a run equals the uninterrupted one bit for bit
  local common="--steps 120 --batch 16 --eval-every 40 --save-every 3 --log-every 1 --quiet" i
  "$wt" train charlm $common --out "$here/whole" >/dev/null 2>&1 || fail "the uninterrupted run"
  for i in 1 2 3 4 5 6 7 8 9 10; do
    "$wt" train charlm $common --resume auto --out "$here/cut" >/dev/null 2>&1 &
    local pid=$!
    if [ $((i % 3)) -eq 0 ]; then  # while a checkpoint is being written
      for _ in $(seq 400); do ls "$here"/cut/ckpt/*.tmp-* >/dev/null 2>&1 && break; sleep 0.005; done
    else
      sleep "0.$((RANDOM % 60 + 20))"
    fi
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
  done
  "$wt" train charlm $common --resume auto --out "$here/cut" >/dev/null 2>"$here/err" ||
    fail "the resumed run: $(cat "$here/err")"
  cmp "$here/whole/ckpt/step-000120.safetensors" "$here/cut/ckpt/step-000120.safetensors" ||
    fail "the final tensors differ"
  diff <(history "$here/whole/metrics.jsonl") <(history "$here/cut/metrics.jsonl") >/dev/null ||
    fail "metrics differ: $(diff <(history "$here/whole/metrics.jsonl") <(history "$here/cut/metrics.jsonl") | head -5)"
}

losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([-0-9.e+]*\),"lr".*/\1 \2/p' "$1"; }
follow() {  # NAME FILE FILE: step by step within 1e-3 relative
  paste <(losses "$2") <(losses "$3") | awk -v name="$1" '
    { d = ($2 - $4) / $2; if (d < 0) d = -d; if (d > worst) worst = d; if (NF != 4 || d > 1e-3) bad = 1 }
    END { print name ": " NR " steps, largest relative difference " worst; exit bad || NR < 5 }' ||
    fail "$1: the losses part"
}

devices() {  # simt follows the cpu, also with another rung from a step on
  local common="--steps 12 --batch 8 --log-every 1 --quiet"
  "$wt" train charlm $common --out "$here/cpu" >/dev/null 2>&1 || fail "cpu"
  "$wt" train charlm $common --device simt --out "$here/simt" >/dev/null 2>"$here/err" ||
    fail "simt: $(cat "$here/err")"
  follow "simt beside cpu" "$here/cpu/metrics.jsonl" "$here/simt/metrics.jsonl"
  "$wt" train charlm $common --device simt --kernel '*:naive' --kernel-from 6 --out "$here/swap" \
    >/dev/null 2>"$here/err" || fail "swapped rung: $(cat "$here/err")"
  follow "another rung from step 6" "$here/cpu/metrics.jsonl" "$here/swap/metrics.jsonl"
  WT_KERNEL='matmul:naive' "$wt" train charlm $common --device simt --out "$here/named" >/dev/null \
    2>"$here/err" || fail "WT_KERNEL: $(cat "$here/err")"
  follow "WT_KERNEL=matmul:naive" "$here/cpu/metrics.jsonl" "$here/named/metrics.jsonl"
}

$part
exit $bad
