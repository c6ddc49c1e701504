#!/usr/bin/env bash
# `wt train` from outside: predicted memory, exit codes, interruption, kills and resumption, devices
# that follow each other. Usage: wt_train_test.sh PATH_OF_WT PART
set -uo pipefail
wt=$1
part=$2
build=${3:-}
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-train-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
field() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" | tail -n 1; }
# metrics without what depends on time and memory
history() { sed -E 's/,"items_per_second":[^,}]*,"bytes":[^,}]*,"slowest_ms":[^,}]*//' "$1"; }

. "${0%/*}/../../support/tiny_fashion.sh"

# A GPT that is small enough for many runs.
tiny="--set layers=1 --set heads=2 --set channels=16 --set context=16 --set dropout=0.1"

# predicts "DEVICES" "BATCHES" RECIPE ARGS...: within 3 % of three real steps
predicts() {
  local devices=$1 batches=$2 device batch p m
  shift 2
  for device in $devices; do
    for batch in $batches; do
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
  predicts cpu "8 32" charlm $tiny
  predicts simt "4 8" charlm $tiny
  predicts "cpu simt" "8 32" fashion --data "$here/fashion" --set model=mlp
  if command -v gzip >/dev/null; then  # headers are read from packed files too
    gzip "$here"/fashion/*
    predicts cpu 16 fashion --data "$here/fashion" --set model=mlp
  fi
}

expect() {  # expect CODE TEXT[|TEXT...] ARGS...: exit code, and parts of what stderr says
  local code=$1 text texts rc
  IFS='|' read -ra texts <<<"$2"
  shift 2
  "$wt" "$@" >"$here/out" 2>"$here/err"
  rc=$?
  [ $rc -eq "$code" ] || fail "wt $*: exit code $rc, expected $code: $(cat "$here/err")"
  for text in "${texts[@]}"; do
    grep -qF -- "$text" "$here/err" || fail "wt $*: no '$text' in: $(cat "$here/err")"
  done
  ! LC_ALL=C grep -q $'[\e\a]' "$here/out" "$here/err" || fail "wt $*: controls the terminal"
}

names() {  # whatever they are called: nothing that is not printable reaches the terminal
  local escape=$'\e[31m\a' shown='\x1b[31m\x07'
  expect 2 "$shown" train "charlm$escape"
  expect 2 "$shown" train charlm "--option$escape"
  expect 2 "$shown" train charlm --optimizer "$escape"
  expect 2 "$shown" train charlm --device "$escape"
  expect 2 "$shown" train charlm --set "layers=$escape"
  expect 2 "$shown" train charlm --set "$escape=1"
  expect 3 "$shown" train charlm --data "$here/$escape"
  expect 3 "$shown" train fashion --data "$here/$escape"
  expect 3 "$shown" eval "$here/$escape"
  expect 3 "$shown" train charlm --steps 1 --init-from "$here/$escape"
  expect 8 "$shown" train charlm $tiny --steps 1 --out "$here/short/$escape"
  expect 2 "is not UTF-8" train charlm --data "$here/"$'\xff' --out "$here/never"
  [ -e "$here/never" ] && fail "a run that cannot be kept was begun"
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
  tiny_fashion "$here/labels" 20 10
  printf '\014' | dd of="$here/labels/train-labels-idx1-ubyte" bs=1 seek=13 conv=notrunc 2>/dev/null
  expect 3 "label 12 is outside [0, 10)" train fashion --data "$here/labels" --steps 1
  tiny_fashion "$here/one" 20 10  # one bad file of four
  printf 'junk' >"$here/one/t10k-images-idx3-ubyte"
  expect 3 "$here/one/t10k-images-idx3-ubyte" train fashion --data "$here/one" --steps 1
  head -c 200 </dev/zero >"$here/zeros"  # a last tenth of 20 bytes: no window of 128
  expect 3 "20 bytes are too few for a context of 128" train charlm --data "$here/zeros" --steps 1
  expect 2 "did you mean 'layers'" train charlm --set layer=2
  expect 2 "did you mean 'adagrad'" train charlm --optimizer adagrat --steps 1
  printf x >"$here/file"
  expect 8 "$here/file" train charlm $tiny --steps 1 --out "$here/file/run"
  [ -e "$here/file/run" ] && fail "something was made under a file"
  expect 2 "'f8' is not one of f32,f16,bf16" train charlm --precision f8 --steps 1
  expect 2 "use skip or stop" train charlm --precision f16 --on-nan ignore --steps 1
  "$wt" train charlm $tiny --steps 2 --quiet --out "$here/run" >/dev/null 2>&1 || fail "a plain run"
  expect 8 "another run" train charlm $tiny --steps 2 --quiet --out "$here/run"
  expect 2 "started with batch" train charlm $tiny --steps 2 --batch 3 --quiet --resume auto --out "$here/run"
  changed
  names
  values
  without_effect
  empty_data
  full_disk
}

values() {  # numbers that are none, not finite or out of range
  local option bad
  for bad in nan inf -1 x; do
    expect 2 "--lr: must be a|, got $bad" train charlm --optimizer sgd --lr $bad
  done
  for option in --clip-norm:nan --weight-decay:inf --ema:-1 --momentum:x --ema:inf --momentum:-1; do
    bad=${option#*:} option=${option%:*}
    expect 2 "$option: must be a|, got $bad" train charlm --optimizer sgd $option $bad
  done
  expect 2 "--lr: must be a finite number above 0, got 0" train charlm --lr 0
  expect 2 "--steps: must be an integer of at least 1, got 0" train charlm --steps 0
  for bad in -1 1.5 all; do
    expect 2 "--eval-batches: must be an integer of at least 0, got $bad" train charlm --eval-batches $bad
  done
  expect 2 "got 1.5" eval x --eval-batches 1.5
  for bad in 1 1001 2.5; do
    expect 2 "--keep: must be an integer from 2 to 1000, got $bad" train charlm --keep $bad
  done
  expect 2 "--share: must be a number from 0.01 to 1, got 0" bench throughput charlm --share 0
  expect 2 "got 99999999999999999999" train charlm --steps 99999999999999999999
  expect 2 "got nan" train charlm --warmup nan
  expect 2 "got -1" train charlm --kernel '*:naive' --kernel-from -1
  expect 2 "--temperature: must be a finite number of at least 0, got nan" generate x --temperature nan
  for bad in -1 18446744073709551616 1.5; do
    expect 2 "--seed: must be an integer from 0 to 18446744073709551615, got $bad" train charlm --seed $bad
    expect 2 "got $bad" generate x --seed $bad
  done
  expect 2 "more steps than can be counted" train charlm $tiny --epochs 9223372036854775807
  "$wt" train charlm $tiny --steps 1 --quiet --seed 18446744073709551615 >"$here/out" 2>&1 ||
    fail "the largest seed: $(cat "$here/out")"
  grep -q '"seed":18446744073709551615' "$here/out" || fail "the largest seed: $(cat "$here/out")"
}

without_effect() {  # options that would do nothing
  expect 2 "--resume is about the run's folder" train charlm --resume auto
  expect 2 "--save-every is about the run's folder" train charlm --save-every 3
  expect 2 "there is no --kernel" train charlm --kernel-from 3
  expect 2 "adamw has none" train charlm --momentum 0.5
  expect 2 "--warmup 3 is more than --steps 2" train charlm --steps 2 --warmup 3
  expect 2 "--out is empty" train charlm --out ""
}

empty_data() {
  tiny_fashion "$here/untaught" 0 10
  expect 3 "$here/untaught: the data has no training samples" train fashion --data "$here/untaught"
  expect 3 "$here/untaught: the data has no training samples" train optimizer-race --data "$here/untaught"
  tiny_fashion "$here/unjudged" 80 0
  expect 3 "$here/unjudged: the data has no held-out samples" train fashion --data "$here/unjudged"
}

full_disk() {  # a limit of file sizes stands for it; what cannot be saved is said once
  (trap '' XFSZ && ulimit -f 8 &&
    "$wt" train charlm $tiny --steps 1 --quiet --out "$here/full" >"$here/out" 2>"$here/err")
  [ $? -eq 8 ] || fail "no room for a checkpoint: $(cat "$here/err")"
  [ "$(grep -c "File too large" "$here/err")" -eq 1 ] || fail "said more than once: $(cat "$here/err")"
  grep -q "nothing was saved after step 1" "$here/err" || fail "no step: $(cat "$here/err")"
}

changed() {  # a run goes on with the options it was started with, those of the defaults too
  local on="train charlm $tiny --steps 2 --quiet --out $here/run --resume auto"
  expect 0 "resumed" $on --lr 0.003 --weight-decay 0.1 --seed 1
  expect 2 "started with lr 0.003, not 0.01" $on --lr 0.01
  expect 2 "started with lr 0.003, not 0.0030000000000000005" $on --lr 0.0030000000000000005
  expect 2 "started with seed 1, not 2" $on --seed 2
  expect 2 "started with weight_decay 0.1, not 0" $on --weight-decay 0
  expect 2 "started with clip_norm 1, not 0.5" $on --clip-norm 0.5
  expect 2 "started with warmup 50, not 1" $on --warmup 1
  expect 2 "started with micro_batches 1, not 2" $on --micro-batches 2
  expect 2 "held-out samples, not on 64 of " $on --eval-batches 2
  expect 0 "resumed" $on --eval-every 2
  on="train charlm $tiny --steps 2 --quiet --out $here/sgd --resume auto --optimizer sgd"
  "$wt" $on --momentum 0.5 >/dev/null 2>&1 || fail "a run of sgd"
  expect 2 "started with momentum 0.5, not 0.9" $on
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

kills() {  # with dropout, an average of the weights, two workers and shuffling: killed five times and resumed, a run equals the uninterrupted one bit for bit
  local common="--steps 120 --batch 16 --eval-every 40 --save-every 3 --log-every 1 --ema 0.9 --workers 2 --quiet" i
  "$wt" train charlm $tiny $common --out "$here/whole" >/dev/null 2>&1 || fail "the uninterrupted run"
  for i in 1 2 3 4 5; do
    "$wt" train charlm $tiny $common --resume auto --out "$here/cut" >/dev/null 2>&1 &
    local pid=$!
    if [ $((i % 2)) -eq 0 ]; then  # while a checkpoint is being written
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
follow() {  # NAME FILE FILE: $steps steps, each within 1e-3 relative
  paste <(losses "$2") <(losses "$3") | awk -v name="$1" -v steps="$steps" '
    { d = ($2 - $4) / $2; if (d < 0) d = -d; if (d > worst) worst = d; if (NF != 4 || d > 1e-3) bad = 1 }
    END { print name ": " NR " steps, largest relative difference " worst; exit bad || NR != steps }' ||
    fail "$1: the losses part"
}

# follows_cpu DEVICE STEPS: the losses of a device, also with another rung for the run or from a step on
follows_cpu() {
  local device=$1 steps=$2 common recipe rungs tried
  export WT_FIRST_USE="$here/first.tsv"
  tiny_fashion "$here/data" 64 8
  seq 2000 | tr '\n' ' ' >"$here/text"
  rungs='matmul:naive,cross_entropy_forward:block,cross_entropy_backward:block,dropout:naive'
  rungs+=',embedding_forward:naive,embedding_backward:naive,gelu:naive,gelu_backward:naive'
  rungs+=',relu:naive,relu_backward:naive,grad_norm:naive,adamw_step:naive,argmax:naive'
  for recipe in "charlm $tiny --data $here/text" "fashion --set model=mlp --data $here/data"; do
    common="$recipe --steps $steps --batch 8 --log-every 1 --quiet"
    "$wt" train $common --out "$here/cpu" >/dev/null 2>&1 || fail "cpu"
    "$wt" train $common --device $device --out "$here/other" >/dev/null 2>"$here/err" ||
      fail "$device: $(cat "$here/err")"
    follow "${recipe%% *} on $device" "$here/cpu/metrics.jsonl" "$here/other/metrics.jsonl"
    "$wt" train $common --device $device --kernel '*:naive' --kernel-from $((steps / 2)) \
      --out "$here/swap" >/dev/null 2>"$here/err" || fail "swapped rung: $(cat "$here/err")"
    follow "  with other rungs from step $((steps / 2))" "$here/cpu/metrics.jsonl" \
      "$here/swap/metrics.jsonl"
    WT_KERNEL=$rungs "$wt" train $common --device $device --out "$here/named" >/dev/null \
      2>"$here/err" || fail "WT_KERNEL: $(cat "$here/err")"
    follow "  with WT_KERNEL=$rungs" "$here/cpu/metrics.jsonl" "$here/named/metrics.jsonl"
    rm -r "$here/cpu" "$here/other" "$here/swap" "$here/named"
  done
  # Every kernel's first use was beside the plainest variant, on the values of training.
  grep '^off' "$WT_FIRST_USE" && fail "a variant differs from the plainest one"
  tried=$(grep -c '^agreed' "$WT_FIRST_USE")
  echo "first uses that agreed: $tried"
  [ "$tried" -ge 60 ] || fail "only $tried first uses"
}
devices() { follows_cpu simt 20; }  # 50 steps: recipe_devices_test.cpp
# The emulated cuda device: wt_train_test.sh WT emulated BUILD
emulated() {
  export LD_LIBRARY_PATH="$build/emulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  follows_cpu cuda 8
  # Without cuBLASLt our own kernels multiply.
  local common="fashion --set model=mlp --data $here/data --steps 1 --batch 8 --quiet --device cuda"
  export WT_CUBLASLT=off
  "$wt" train $common --out "$here/own" >/dev/null 2>"$here/err" || fail "without cuBLASLt: $(cat "$here/err")"
  WT_KERNEL=matmul:vendor expect 2 "WT_CUBLASLT=off" train $common --out "$here/vendor"
}

rates() { sed -n 's/.*"items_per_second":\([0-9.e+]*\).*/\1/p' "$1" | sort -g | sed -n 10p; }
throughput() {  # evaluations do not count as training
  local common="fashion --data $here/data --steps 20 --batch 2 --log-every 1 --quiet" a b
  tiny_fashion "$here/data" 100 200
  "$wt" train $common --eval-every 20 --out "$here/rare" >/dev/null 2>&1 || fail "a run"
  "$wt" train $common --eval-every 1 --out "$here/often" >/dev/null 2>&1 || fail "evaluating often"
  a=$(rates "$here/rare/metrics.jsonl") b=$(rates "$here/often/metrics.jsonl")
  echo "median items a second: $a, evaluated after every step: $b"
  awk -v a="${a:-1}" -v b="${b:-0}" 'BEGIN { exit !(b > 0.2 * a) }' || fail "evaluation counts as training"
}

numbers() {  # a loss that is not finite stops the run, with what was trained before it
  local common="fashion --data $here/data --set model=mlp --steps 30 --batch 16 --quiet" of
  tiny_fashion "$here/data" 64 32
  # Rates that no float survives.
  expect 5 "NumericError" train $common --lr 1e30 --clip-norm 0 --warmup 0 --out "$here/run"
  grep -q "its checkpoint and the report are written" "$here/err" || fail "nothing kept: $(cat "$here/err")"
  [ -s "$here/run/report.html" ] || fail "no report"
  "$wt" eval "$here"/run/ckpt/step-*.safetensors --json >/dev/null || fail "the checkpoint"
  "$wt" train $common --lr 1e30 --clip-norm 0 --on-nan skip >"$here/out" 2>"$here/err" ||
    fail "skip: $(cat "$here/err")"
  [ "$(field skipped_steps <"$here/out")" -gt 0 ] || fail "no step was skipped: $(cat "$here/out")"
  grep -q "$(field skipped_steps <"$here/out") of 30 steps were skipped" "$here/err" ||
    fail "it does not say what was skipped: $(cat "$here/err")"
  "$wt" train $common --lr 1e30 --clip-norm 0 --on-nan ignore >"$here/out" 2>"$here/err" ||
    fail "ignore: $(cat "$here/err")"
  grep -q '"skipped_steps":0' "$here/out" || fail "a step was skipped: $(cat "$here/out")"
  for of in "last training" held-out; do
    grep -q "the $of loss is not finite" "$here/err" || fail "$of: $(cat "$here/err")"
  done
  for of in loss accuracy; do  # a model without a loss is never the best
    "$wt" train $common --lr 1e30 --clip-norm 0 --warmup 0 --on-nan ignore --monitor $of --eval-every 30 \
      --out "$here/$of" >/dev/null 2>"$here/err" || fail "by $of: $(cat "$here/err")"
    [ -e "$here/$of/ckpt/best.safetensors" ] && fail "by $of, NaN is the best"
  done
  "$wt" train $common >/dev/null 2>"$here/err"
  [ -s "$here/err" ] && fail "doubts about a good run: $(cat "$here/err")"
  return 0
}

lowest() { sed -n 's/.*"eval_loss":\([0-9.e+-]*\),.*/\1/p' "$1" | tail -n +2 | sort -g | head -n 1; }
stopping() {  # patience ends a run that gets worse; its best checkpoint is the best evaluation
  local common="--data $here/data --set model=mlp --steps 400 --batch 16 --eval-every 5 --lr 0.05"
  local steps
  tiny_fashion "$here/data" 48 32
  "$wt" train fashion $common --patience 3 --out "$here/run" >"$here/out" 2>"$here/err" ||
    fail "a run: $(cat "$here/err")"
  steps=$(field steps <"$here/out")
  [ "$steps" -lt 400 ] || fail "it went on to step $steps"
  grep -q "no better loss for 3 evaluations" "$here/err" || fail "it does not say why it stopped"
  "$wt" eval "$here/run" --json >"$here/out" 2>"$here/err" || fail "eval: $(cat "$here/err")"
  [ "$(field loss <"$here/out")" = "$(lowest "$here/run/metrics.jsonl")" ] ||
    fail "the best checkpoint has $(cat "$here/out"), the run $(lowest "$here/run/metrics.jsonl")"
  [ "$(field step <"$here/out")" -eq $((steps - 15)) ] || fail "the best is not 3 evaluations ago"
  # Over is over.
  "$wt" train fashion $common --patience 3 --resume auto --quiet --out "$here/run" >"$here/out" \
    2>"$here/err" || fail "resumed: $(cat "$here/err")"
  [ "$(field steps <"$here/out")" -eq "$steps" ] || fail "a stopped run went on"
  [ "$(field eval_loss <"$here/out")" = "$(sed -n 's/.*"eval_loss":\([0-9.e+-]*\),.*/\1/p' \
    "$here/run/metrics.jsonl" | tail -n 1)" ] || fail "its summary: $(cat "$here/out")"
  grep -q "onfusion" "$here/run/report.html" || fail "the report of a resumed run lost its classes"
  expect 2 "larger than the data" train fashion --data "$here/data" --batch 49
  expect 2 "started with init_from nothing" train fashion $common --init-from "$here/run" --resume auto --out "$here/run"
  expect 2 "started with ema" train fashion $common --ema 0.9 --resume auto --quiet --out "$here/run"
  expect 2 "started with set" train fashion $common --set dropout=0.1 --resume auto --out "$here/run"
}

lost() {  # lost ARGS...: what cannot be printed is no success
  "$wt" "$@" >/dev/full 2>"$here/err"
  [ $? -eq 8 ] || fail "wt $* >/dev/full: not 8: $(cat "$here/err")"
  grep -q "standard output cannot be written: No space left" "$here/err" ||
    fail "wt $* >/dev/full: $(cat "$here/err")"
}

optimizers() {  # each one learns, with its own rate; each schedule runs
  local o
  tiny_fashion "$here/data" 64 32
  for o in sgd adam adamw adagrad rmsprop lion nadam radam adamax adadelta muon; do
    "$wt" train fashion --data "$here/data" --set model=mlp --epochs 12 --batch 16 --quiet \
      --optimizer $o >"$here/out" 2>"$here/err" || fail "$o: $(cat "$here/err")"
    awk -v l="$(field eval_loss <"$here/out")" 'BEGIN { exit !(l < 2.2) }' ||
      fail "$o: held-out loss $(field eval_loss <"$here/out")"
  done
  for o in cosine linear constant one-cycle plateau; do
    "$wt" train fashion --data "$here/data" --set model=mlp --epochs 12 --batch 16 --quiet \
      --schedule $o --monitor accuracy >"$here/out" 2>"$here/err" || fail "$o: $(cat "$here/err")"
    awk -v l="$(field eval_loss <"$here/out")" 'BEGIN { exit !(l < 2.2) }' ||
      fail "$o: held-out loss $(field eval_loss <"$here/out")"
  done
}

precision() {  # 16 bits learn as f32 does, are resumed with their scale, and say what overflowed
  local o
  tiny_fashion "$here/data" 64 32
  train() { "$wt" train fashion --data "$here/data" --set model=mlp --batch 16 "$@" 2>"$here/err"; }
  for o in f32 bf16 f16; do
    train --epochs 12 --quiet --precision $o >"$here/$o" || fail "$o: $(cat "$here/err")"
    [ "$(sed -n 's/.*"precision":"\([a-z0-9]*\)".*/\1/p' "$here/$o")" = $o ] || fail "$o: $(cat "$here/$o")"
    awk -v l="$(field eval_loss <"$here/$o")" -v w="$(field eval_loss <"$here/f32")" \
      'BEGIN { exit !(l < 1.02 * w) }' || fail "$o: held-out loss $(field eval_loss <"$here/$o")"
  done
  train --epochs 12 --quiet --precision O2 >"$here/out" || fail "$(cat "$here/err")"
  [ "$(field eval_loss <"$here/out")" = "$(field eval_loss <"$here/f16")" ] || fail "O2 is not f16"
  # Resumed in the middle or not, the losses are the same. A rate that is far too high makes
  # activations overflow.
  local steps=(--steps 24 --precision f16 --optimizer sgd --lr 60 --clip-norm 0 --warmup 0 --on-nan skip --log-every 1)
  train "${steps[@]}" --exponents 10 --out "$here/whole" >"$here/out" || fail "$(cat "$here/err")"
  # What the gradients were, beside the numbers of the run, which it does not change (below).
  grep -q "^gradients of step 24 by binary exponent" "$here/err" || fail "no map: $(cat "$here/err")"
  grep -q $'\x1b' "$here/err" && fail "colours in a file"
  for part in "Gradient exponents <small>step 24" "Gradient exponents of a skipped step" \
    "Gradient exponents over the run" "step time</th><td>p50 " \
    "waiting for data</th><td>[0-9]* % of"; do
    grep -q "$part" "$here/whole/report.html" || fail "the report has no $part"
  done
  for part in '"step":10,"skipped":' '"step":20,"skipped":' '"step":24,"skipped":' '"skipped":true' \
    '"inf":[1-9]'; do
    grep -q "$part" "$here/whole/exponents.json" || fail "exponents.json: no $part"
  done
  grep -q '^step time: p50 .* slowest .* ms (step [0-9]*: ' "$here/err" || fail "no step time: $(cat "$here/err")"
  grep -q '"step_ms_slowest":[0-9.]*,"slowest_step":[0-9]*,"slowest_with":"' "$here/out" || fail "$(cat "$here/out")"
  grep -q '^waiting for data: [0-9]* % of the steps' "$here/err" || fail "no waiting for data: $(cat "$here/err")"
  grep -q '"data_wait":[0-9]' "$here/out" || fail "$(cat "$here/out")"
  grep -q '"slowest_ms":[0-9]' "$here/whole/metrics.jsonl" || fail "no slowest_ms"
  grep -q "was skipped at scale 65536: inf or NaN first in " "$here/err" || fail "$(cat "$here/err")"
  grep -qE "skipped step 2<.*scale 65536: inf or NaN first in backward: [^<]*recorded by 5[.]linear" "$here/whole/report.html" ||
    fail "the report does not name the layer that overflowed"
  [ "$(field skipped_steps <"$here/out")" -gt 0 ] || fail "$(cat "$here/out")"
  grep -q '"scale":32768' "$here/whole/metrics.jsonl" || fail "$(cat "$here/whole/metrics.jsonl")"
  train "${steps[@]}" --save-every 7 --keep 9 --out "$here/parts" --quiet >"$here/out" || fail "$(cat "$here/err")"
  rm "$here"/parts/ckpt/step-*2[0-9].safetensors  # 21 and 24: as if killed before step 21 was saved
  train "${steps[@]}" --save-every 7 --out "$here/parts" --resume auto --quiet >"$here/out" || fail "$(cat "$here/err")"
  grep -q "going on at step 14" "$here/err" || fail "$(cat "$here/err")"
  [ "$(losses "$here/whole/metrics.jsonl")" = "$(losses "$here/parts/metrics.jsonl")" ] ||
    fail "resumed at another scale"
}
begun() {  # --init-from: a run begins with the weights of another, and a resumed one with its own
  local common="fashion --data $here/data --set model=mlp --epochs 2 --batch 20 --eval-batches 0 --quiet" first
  tiny_fashion "$here/data" 200 50
  "$wt" train $common --ema 0.8 --out "$here/a" >"$here/out" 2>"$here/err" || fail "a run: $(cat "$here/err")"
  "$wt" eval "$here/a" --json >"$here/eval" || fail "eval"
  for of in "$here/a" "$here/a/ckpt/best.safetensors"; do
    rm -rf "$here/b"
    "$wt" train $common --seed 2 --init-from "$of" --out "$here/b" >/dev/null 2>"$here/err" ||
      fail "from $of: $(cat "$here/err")"
    first=$(sed -n 's/.*"eval_loss":\([0-9.e+-]*\),.*/\1/p' "$here/b/metrics.jsonl" | head -n 1)
    [ "$first" = "$(field loss <"$here/eval")" ] || fail "begun with a loss of $first, not $(cat "$here/eval")"
  done
  grep -q "\"init_from\":\"$here/a/ckpt/best" "$here/b/metrics.jsonl" || fail "metrics.jsonl does not say it"
  mv "$here/a" "$here/c"  # a run that goes on needs it no more
  "$wt" train $common --seed 2 --init-from "$here/a/ckpt/best.safetensors" --resume auto --out "$here/b" \
    >/dev/null 2>"$here/err" || fail "resumed: $(cat "$here/err")"
  expect 2 "started with init_from $here/a" train $common --seed 2 --resume auto --out "$here/b"
  expect 3 "$here/none" train $common --init-from "$here/none"
  expect 3 "no checkpoint" train $common --init-from "$here/data" --out "$here/d"
  [ -e "$here/d/metrics.jsonl" ] && fail "metrics of a run that never began"
  expect 2 "another architecture" train charlm $tiny --steps 1 --init-from "$here/c"
  expect 2 "--init-from is empty" train $common --init-from ""
  expect 2 "the same random weights" train optimizer-race --init-from "$here/c"
}

use() {  # eval, predict and generate agree with what training said
  local right
  tiny_fashion "$here/data" 200 50
  "$wt" train fashion --data "$here/data" --set model=mlp --epochs 6 --batch 20 --ema 0.8 --quiet \
    --out "$here/run" >"$here/train" 2>"$here/err" || fail "training: $(cat "$here/err")"
  "$wt" eval "$here/run/ckpt/latest" >/dev/null 2>&1 && fail "a file that is no checkpoint"
  "$wt" eval "$here"/run/ckpt/step-000060.safetensors --json >"$here/eval" || fail "eval"
  [ "$(field loss <"$here/eval")" = "$(field eval_loss <"$here/train")" ] ||
    fail "training said $(cat "$here/train"), eval $(cat "$here/eval")"
  [ "$(field accuracy <"$here/eval")" = "$(field accuracy <"$here/train")" ] || fail "accuracy"
  "$wt" eval "$here/run" | grep -q "weighted avg" || fail "no classification report"
  # A part of the held-out data is what a run draws of it, and called one.
  "$wt" train fashion --data "$here/data" --set model=mlp --steps 4 --batch 4 --out "$here/short" \
    >"$here/short.out" 2>"$here/err" || fail "four steps: $(cat "$here/err")"
  [ "$(field eval_samples <"$here/short.out")/$(field held_out_samples <"$here/short.out")" = 2/50 ] ||
    fail "a short run: $(cat "$here/short.out")"
  "$wt" eval "$here/short/ckpt/step-000004.safetensors" --batch 2 --eval-batches 1 --json >"$here/part" ||
    fail "eval of a part"
  [ "$(field loss <"$here/part")" = "$(field eval_loss <"$here/short.out")" ] ||
    fail "training said $(cat "$here/short.out"), eval of as many $(cat "$here/part")"
  grep -q '"samples":2,"held_out_samples":50,' "$here/part" || fail "$(cat "$here/part")"
  "$wt" eval "$here/short" --batch 2 --eval-batches 1 | grep -q ", 2 of 50 samples" || fail "not called a part"
  "$wt" eval "$here/short" --batch 2 --eval-batches 26 | grep -q ", 50 samples" || fail "more than there are"
  "$wt" predict "$here"/run/ckpt/step-000060.safetensors --json \
    "$here/data/t10k-images-idx3-ubyte" >"$here/guesses" || fail "predict"
  [ "$(wc -l <"$here/guesses")" -eq 50 ] || fail "$(wc -l <"$here/guesses") predictions"
  right=$(paste <(sed -n 's/.*"index":[0-9]*,"class":"[^"]*","label":\([0-9]*\).*/\1/p' "$here/guesses") \
    <(od -An -v -tu1 -w1 -j8 "$here/data/t10k-labels-idx1-ubyte") | awk '$1 == $2' | wc -l)
  awk -v n="$right" -v a="$(field accuracy <"$here/eval")" 'BEGIN { exit !(n / 50 == a) }' ||
    fail "$right of 50 predictions are right, accuracy is $(field accuracy <"$here/eval")"
  "$wt" predict "$here/run" "$here/data/t10k-images-idx3-ubyte" >"$here/out" || fail "a table"
  [ "$(wc -l <"$here/out")" -eq 51 ] || fail "$(wc -l <"$here/out") rows of the table"
  expect 3 "$here/none" predict "$here/run" "$here/none"
  expect 2 "not of text" generate "$here/run"
  expect 2 "no metric 'los'" eval "$here/run" --metrics los
  expect 3 "no checkpoint" eval "$here/data"
  expect 3 "$here/none" eval "$here/none"
  tiny_fashion "$here/unjudged" 80 0
  expect 3 "$here/unjudged: the data has no held-out samples" eval "$here/run" --data "$here/unjudged"

  seq 3000 | tr '\n' ' ' >"$here/text"
  "$wt" train charlm $tiny --data "$here/text" --steps 100 --quiet --out "$here/gpt" >/dev/null \
    2>"$here/err" || fail "charlm: $(cat "$here/err")"
  "$wt" generate "$here/gpt" --bytes 300 --prompt 12 >"$here/a" || fail "generate"
  "$wt" generate "$here/gpt" --bytes 300 --prompt 12 >"$here/b"
  "$wt" generate "$here/gpt" --bytes 300 --prompt 12 --seed 2 >"$here/c"
  cmp -s "$here/a" "$here/b" || fail "the same seed wrote another text"
  cmp -s "$here/a" "$here/c" && fail "another seed wrote the same text"
  [ "$(wc -c <"$here/a")" -eq 303 ] || fail "$(wc -c <"$here/a") bytes"
  grep -q "sampled" "$here/gpt/report.html" -i || fail "no sample in the report"
  expect 2 "not of images" predict "$here/gpt" "$here/text"
  printf '\2\0\0\0\0\0\0\0{}' >"$here/weights"
  expect 3 "not a checkpoint of wt train" eval "$here/weights"

  [ -e /dev/full ] || return
  lost --version
  lost --help
  lost info
  lost ops
  lost bench overhead --only tape_add --windows 1 --window-s 0.01
  lost train charlm $tiny --data "$here/text" --steps 2 --quiet
  lost eval "$here/run"
  lost predict "$here/run" --json "$here/data/t10k-images-idx3-ubyte"
  lost predict "$here/run" "$here/data/t10k-images-idx3-ubyte"
  lost generate "$here/gpt" --bytes 20
  lost generate "$here/gpt" --bytes 20 --json
  "$wt" train charlmm >/dev/full 2>&1
  [ $? -eq 2 ] || fail "an error before it has another code"
  "$wt" info 2>"$here/err" | true  # whoever reads no further wants no message
  [ -s "$here/err" ] && fail "a closed pipe: $(cat "$here/err")"
  return 0
}

$part
exit $bad
