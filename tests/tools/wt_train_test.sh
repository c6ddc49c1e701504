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

# tiny_fashion FOLDER TRAIN TEST: IDX files of so many images, a bright band where the class says
tiny_fashion() {
  local prefix n
  mkdir -p "$1"
  for prefix in train t10k; do
    n=$([ $prefix = train ] && echo "$2" || echo "$3")
    LC_ALL=C awk -v n="$n" -v labels="$1/$prefix-labels-idx1-ubyte" '
      function word(v) { return sprintf("\\%03o\\%03o\\%03o\\%03o", int(v / 16777216) % 256,
                                        int(v / 65536) % 256, int(v / 256) % 256, v % 256) }
      function next_random() { seed = (seed * 16807) % 2147483647; return int(seed / 65536) }
      BEGIN {
        seed = n
        printf "\\000\\000\\010\\003%s%s%s", word(n), word(28), word(28)
        printf "\\000\\000\\010\\001%s", word(n) >labels
        for (i = 0; i < n; ++i) {
          label = next_random() % 10
          printf "\\%03o", label >labels
          for (p = 0; p < 784; ++p)
            printf "\\%03o", next_random() % 96 + (int(p / 79) == label ? 128 : 0)
        }
      }' >"$1/$prefix-images-idx3-ubyte"
    for f in images-idx3 labels-idx1; do  # the escapes become bytes
      printf "$(cat "$1/$prefix-$f-ubyte")" >"$1/bytes" && mv "$1/bytes" "$1/$prefix-$f-ubyte"
    done
  done
}

# A GPT that is small enough for many runs.
tiny="--set layers=1 --set heads=2 --set channels=16 --set context=16 --set dropout=0.1"

# predicts RECIPE ARGS...: on both devices, with three batch sizes, within 3 % of three real steps
predicts() {
  local device batch p m
  for device in cpu simt; do
    for batch in 8 16 32; do
      p=$("$wt" train "$@" --dry-run --device $device --batch $batch 2>/dev/null | field predicted_bytes)
      m=$("$wt" train "$@" --steps 3 --quiet --device $device --batch $batch 2>/dev/null | field peak_bytes)
      echo "$1 on $device, batch $batch: predicted ${p:-nothing}, measured ${m:-nothing}"
      awk -v p="${p:-0}" -v m="${m:-1}" 'BEGIN { exit !(p > 0.97 * m && p < 1.03 * m) }' ||
        fail "memory of $1 on $device, batch $batch"
    done
  done
}
memory() {
  local f
  tiny_fashion "$here/fashion" 80 20
  predicts charlm $tiny
  predicts fashion --data "$here/fashion" --set model=mlp
  if command -v gzip >/dev/null; then  # headers are read from packed files too
    gzip "$here"/fashion/*
    predicts fashion --data "$here/fashion" --set model=mlp
  fi
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
  expect 8 "$here/file" train charlm $tiny --steps 1 --out "$here/file/run"
  [ -e "$here/file/run" ] && fail "something was made under a file"
  expect 2 "f32 only" train charlm --precision f16 --steps 1
  "$wt" train charlm $tiny --steps 2 --quiet --out "$here/run" >/dev/null 2>&1 || fail "a plain run"
  expect 8 "another run" train charlm $tiny --steps 2 --quiet --out "$here/run"
  expect 2 "started with batch" train charlm $tiny --steps 2 --batch 3 --quiet --resume auto --out "$here/run"
}

interrupt() {  # the first Ctrl-C saves and says 130; the same command line goes on
  "$wt" train charlm $tiny --steps 3000 --quiet --out "$here/run" >/dev/null 2>"$here/err" &
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

kills() {  # with dropout, an average of the weights, two workers and shuffling: killed ten times and resumed, a run equals the uninterrupted one bit for bit
  local common="--steps 120 --batch 16 --eval-every 40 --save-every 3 --log-every 1 --ema 0.9 --workers 2 --quiet" i
  "$wt" train charlm $tiny $common --out "$here/whole" >/dev/null 2>&1 || fail "the uninterrupted run"
  for i in 1 2 3 4 5 6 7 8 9 10; do
    "$wt" train charlm $tiny $common --resume auto --out "$here/cut" >/dev/null 2>&1 &
    local pid=$!
    if [ $((i % 3)) -eq 0 ]; then  # while a checkpoint is being written
      for _ in $(seq 400); do ls "$here"/cut/ckpt/*.tmp-* >/dev/null 2>&1 && break; sleep 0.005; done
    else
      sleep "0.$((RANDOM % 60 + 20))"
    fi
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
  done
  "$wt" train charlm $tiny $common --resume auto --out "$here/cut" >/dev/null 2>"$here/err" ||
    fail "the resumed run: $(cat "$here/err")"
  cmp "$here/whole/ckpt/step-000120.safetensors" "$here/cut/ckpt/step-000120.safetensors" ||
    fail "the final tensors differ"
  diff <(history "$here/whole/metrics.jsonl") <(history "$here/cut/metrics.jsonl") >/dev/null ||
    fail "metrics differ: $(diff <(history "$here/whole/metrics.jsonl") <(history "$here/cut/metrics.jsonl") | head -5)"
}

losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([-0-9.e+]*\),"lr".*/\1 \2/p' "$1"; }
follow() {  # NAME FILE FILE: 50 steps, each within 1e-3 relative
  paste <(losses "$2") <(losses "$3") | awk -v name="$1" '
    { d = ($2 - $4) / $2; if (d < 0) d = -d; if (d > worst) worst = d; if (NF != 4 || d > 1e-3) bad = 1 }
    END { print name ": " NR " steps, largest relative difference " worst; exit bad || NR != 50 }' ||
    fail "$1: the losses part"
}

devices() {  # simt follows the cpu, also with another rung for the run or from a step on
  local common recipe rungs
  tiny_fashion "$here/data" 64 8
  seq 2000 | tr '\n' ' ' >"$here/text"
  rungs='matmul:naive,cross_entropy_forward:block,cross_entropy_backward:block,dropout:naive'
  rungs+=',embedding_forward:naive,embedding_backward:naive,gelu:naive,gelu_backward:naive'
  rungs+=',relu:naive,relu_backward:naive,grad_norm:naive,adamw_step:naive,argmax:naive'
  for recipe in "charlm $tiny --data $here/text" "fashion --set model=mlp --data $here/data"; do
    common="$recipe --steps 50 --batch 8 --log-every 1 --quiet"
    "$wt" train $common --out "$here/cpu" >/dev/null 2>&1 || fail "cpu"
    "$wt" train $common --device simt --out "$here/simt" >/dev/null 2>"$here/err" ||
      fail "simt: $(cat "$here/err")"
    follow "${recipe%% *} on simt" "$here/cpu/metrics.jsonl" "$here/simt/metrics.jsonl"
    "$wt" train $common --device simt --kernel '*:naive' --kernel-from 25 --out "$here/swap" \
      >/dev/null 2>"$here/err" || fail "swapped rung: $(cat "$here/err")"
    follow "  with other rungs from step 25" "$here/cpu/metrics.jsonl" "$here/swap/metrics.jsonl"
    WT_KERNEL=$rungs "$wt" train $common --device simt --out "$here/named" >/dev/null \
      2>"$here/err" || fail "WT_KERNEL: $(cat "$here/err")"
    follow "  with WT_KERNEL=$rungs" "$here/cpu/metrics.jsonl" "$here/named/metrics.jsonl"
    rm -r "$here/cpu" "$here/simt" "$here/swap" "$here/named"
  done
}

rates() { sed -n 's/.*"items_per_second":\([0-9.e+]*\).*/\1/p' "$1" | sort -g | sed -n 20p; }
throughput() {  # evaluations do not count as training
  local common="fashion --data $here/data --steps 40 --batch 2 --log-every 1 --quiet" a b
  tiny_fashion "$here/data" 100 1000
  "$wt" train $common --eval-every 40 --out "$here/rare" >/dev/null 2>&1 || fail "a run"
  "$wt" train $common --eval-every 1 --out "$here/often" >/dev/null 2>&1 || fail "evaluating often"
  a=$(rates "$here/rare/metrics.jsonl") b=$(rates "$here/often/metrics.jsonl")
  echo "median items a second: $a, evaluated after every step: $b"
  awk -v a="${a:-1}" -v b="${b:-0}" 'BEGIN { exit !(b > 0.2 * a) }' || fail "evaluation counts as training"
}

$part
exit $bad
