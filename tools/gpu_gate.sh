#!/usr/bin/env bash
# Everything that needs a GPU, in calls of less than ten minutes: tests on cuda against cpu and simt,
# memory checkers, ceilings, kernel times, a training step beside PyTorch.
#
#   tools/gpu_gate.sh OUTDIR [PART...]   runs; writes OUTDIR/gpu_gate.md, gpu_gate.jsonl and logs
#   tools/gpu_gate.sh --pack DIR         copies what a machine without a compiler needs to DIR
#
# Programs come from WT_BUILD_DIR (a build tree or a packed folder); without it the preset "cuda" is
# built first. A call ends within WT_GATE_SECONDS (540) and names the parts that are left: the next
# call with the same OUTDIR goes on with those. With PARTs only they run, once more if they ran
# before. docs/gpu_gate.md has more.
#
# Exit code: 0 when every part passed, or when there is no GPU (the page says SKIPPED and why); 1
# when a part failed, named in the last line; 2 for a wrong command line; 3 when parts are left.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
started=$SECONDS
limit=${WT_GATE_SECONDS:-540}

parts=" tests kernels dispatch step memcheck initcheck racecheck synccheck "
usage() {
  echo "usage: tools/gpu_gate.sh OUTDIR [PART...] | --pack DIR" >&2
  echo "parts:$parts" >&2
  exit 2
}
[ $# -ge 1 ] && [ -n "$1" ] || usage

# --- programs ---
build=${WT_BUILD_DIR:-}
if [ -z "$build" ]; then
  build=$here/build/cuda
  echo "building in $build"
  (cd "$here" && cmake --preset cuda >/dev/null &&
    cmake --build build/cuda --parallel --target wt_tests wt_gpu_bench) || {
    echo "GPU gate FAILED: build"
    exit 1
  }
fi
tests=$build/wt_tests bench=$build/wt_gpu_bench
for program in "$tests" "$bench"; do
  if [ ! -x "$program" ]; then
    echo "GPU gate FAILED: $program is not there (WT_BUILD_DIR must hold wt_tests and wt_gpu_bench)"
    exit 1
  fi
done

if [ "$1" = --pack ]; then
  [ $# -eq 2 ] || usage
  mkdir -p "$2/lib" || exit 1
  for program in "$tests" "$bench"; do
    strip --strip-debug -o "$2/${program##*/}" "$program" || exit 1
    # Not the C library's, which belong to the machine, nor CUDA's, which come with its toolkit.
    ldd "$program" | awk '$3 ~ /^\// {print $3}' |
      grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcu[a-zA-Z]*|libnv[a-zA-Z]*|libnccl)\.so' |
      while read -r file; do cp -L "$file" "$2/lib/" || exit 1; done
  done
  cp "$build/gpu_tests.txt" "$2/" || exit 1
  du -sh "$2"
  exit 0
fi
out=$1
shift
for name in "$@"; do
  [[ $parts == *" $name "* ]] || usage
done
mkdir -p "$out" || { echo "GPU gate FAILED: $out cannot be written"; exit 1; }
out=$(cd "$out" && pwd)
page=$out/gpu_gate.md rows=$out/gpu_gate.jsonl
# What earlier calls did: the probe's line, then a line "name<TAB>result<TAB>seconds" a part. There
# while parts are left.
record=$out/.gate
: >"$page" || exit 1

# CUDA's libraries: where the programs look, else the toolkit's, else the Python wheels'.
libraries=$build/lib
if ldd "$bench" | grep -q 'not found'; then
  libraries+=:/usr/local/cuda/lib64
  wheels=$(python3 -c 'import nvidia, os
for folder in nvidia.__path__:
    for name in sorted(os.listdir(folder)):
        lib = os.path.join(folder, name, "lib")
        if os.path.isdir(lib):
            print(lib)' 2>/dev/null | paste -sd:)
  libraries+=${wheels:+:$wheels}
fi
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# --- is there a GPU? ---
date=$(date -u '+%Y-%m-%d %H:%M UTC')
probe=$("$bench" probe 2>&1)
code=$?
if [ $code -eq 77 ]; then
  printf '# GPU gate\n\n%s\n\n%s\n' "$date" "$probe" | tee "$page"
  exit 0
elif [ $code -ne 0 ]; then
  printf '# GPU gate\n\n%s\n\nFAILED: probe: %s\n' "$date" "$probe" | tee "$page"
  echo "GPU gate FAILED: probe"
  exit 1
fi
echo "$probe"
if [ "$(head -1 "$record" 2>/dev/null)" != "$probe" ]; then
  rm -f "$out"/.[a-z]*.md "$out"/.next "$out"/*.log
  echo "$probe" >"$record"
  : >"$rows"
fi
smi() {
  nvidia-smi --query-gpu=driver_version,clocks.sm,power.draw,temperature.gpu \
    --format=csv,noheader 2>/dev/null | head -1 || true
}

# --- parts ---
wanted=("$@")
begun=0
waiting=()  # parts that are left
left() { echo $((limit - (SECONDS - started))); }
forget() { grep -vP "^$1\t" "$record" >"$record.new"; mv "$record.new" "$record"; }
for name in "${wanted[@]}"; do
  forget "$name"
  [ "$name" = kernels ] && rm -f "$out/.next" "$out/.kernels.md"
  [ "$name" = dispatch ] && rm -f "$out/.dispatch.md"
done

# part NAME SECONDS COMMAND...: runs it with its output in OUTDIR/NAME.log, unless an earlier call
# did, or too little of this call is left. Exit code 77: skipped; 3: it goes on in the next call.
part() {
  local name=$1 most=$2 begin=$SECONDS state code
  shift 2
  grep -qP "^$name\t" "$record" && return
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then
    waiting+=("$name")
    return
  fi
  if [ "$(left)" -lt "$most" ]; then
    # The first of a call has all of its time: else it would never run.
    [ $begun -gt 0 ] && { waiting+=("$name"); return; }
    most=$(left)
  fi
  begun=1
  echo "--- $name (at most $most s)"
  export most
  [ "$name" = kernels ] && [ -s "$out/.next" ] || : >"$out/$name.log"
  timeout --kill-after=5 "$most" "$@" >>"$out/$name.log" 2>&1
  code=$?
  case $code in
    0) state=passed ;;
    3) waiting+=("$name"); echo "$name: $(tail -n 1 "$out/$name.log")"; return ;;
    77) state=$(grep -m1 -o 'SKIPPED.*' "$out/$name.log" || echo SKIPPED) ;;
    124 | 137) state="FAILED: longer than $most s" ;;
    *) state="FAILED: $(tail -n 1 "$out/$name.log" | cut -c1-200 | tr '|\t' '/ ')" ;;
  esac
  printf '%s\t%s\t%s\n' "$name" "$state" $((SECONDS - begin)) >>"$record"
  echo "$name: $state"
}

# As many contracts as there is time for, beginning where the call before stopped. Its last line
# names the one to go on with.
run_kernels() {
  local from=()
  [ -s "$out/.next" ] && from=(--from "$(cat "$out/.next")")
  "$bench" kernels --json "$rows" --page "$out/.kernels.md" --for $((most * 3 / 4)) "${from[@]}"
  local code=$?
  rm -f "$out/.next"
  [ $code -eq 3 ] && grep -oP '^LEFT: from \K\S+' "$out/kernels.log" | tail -1 >"$out/.next"
  [ $code -eq 0 ] && grep -q 'WRONG: ' "$out/kernels.log" && echo "wrong values" && return 1
  return $code
}

# Each test file in a process of its own, several at a time; a failure does not end the others.
run_tests() {
  export WT_TEST_DEVICES=cpu,simt,cuda OPENBLAS_NUM_THREADS=1
  local bad
  # A line is "name shard/shards".
  bad=$(xargs -a "$build/gpu_tests.txt" -P 6 -L1 bash -c '
    log=$(WT_SHARD=$2 "$here/tests/support/run_case.sh" "$tests" "-#" "[#$1]" 2>&1)
    rc=$?
    { echo "=== $1 $2"; echo "$log"; } >&2
    [ $rc -eq 0 ] || [ $rc -eq 77 ] || echo "$1"' run)
  # Ends its process's use of the device, so it is alone.
  "$tests" "[gpu_fatal]" >&2 || bad+=" gpu_fatal"
  [ -z "$bad" ] && return 0
  echo "failing: $(echo $bad)"
  return 1
}

# Every kernel at small odd sizes under the four checkers. Vendor kernels are not ours to check.
shared=sum,max,argmax,any,logsumexp,norm,prod,variance,matmul,softmax_forward,softmax_backward,cross_entropy_forward
shared+=,cross_entropy_backward,mse_forward,embedding_backward,grad_norm,copy
shared+=,layer_norm_forward,layer_norm_backward_input,layer_norm_backward_params
shared+=,ctc_forward,ctc_backward,cholesky,solve_triangular,qr,eigh,svd,lu
shared+=,nll_forward,scan,scatter,sort,bincount,multinomial,attention_forward,attention_backward,conv_backward_weight
shared+=,image_batch,image_color,image_erase,image_mix,image_warp,fft
run_sanitizer() {
  local tool=$1
  shift
  command -v compute-sanitizer >/dev/null || { echo "SKIPPED: no compute-sanitizer"; return 77; }
  WT_ALLOC=direct compute-sanitizer --tool "$tool" --error-exitcode 9 --launch-timeout 120 "$@"
  local rc=$?
  if grep -q 'Device not supported' "$out/$tool.log"; then
    echo "SKIPPED: compute-sanitizer does not support this machine"
    return 77
  fi
  return $rc
}

# Ours, theirs, theirs, ours: the ratio of the worst pair counts.
run_step() {
  local ours=$out/.ours theirs=$out/.theirs rc
  rm -f "$ours" "$theirs"
  "$bench" mlp --json "$ours" || return 1
  for _ in 1 2; do
    python3 "$here/bench/peers/gpu_mlp.py" --json "$theirs"
    rc=$?
    [ $rc -eq 77 ] && break
    [ $rc -eq 0 ] || return 1
  done
  "$bench" mlp --json "$ours" || return 1
  cat "$ours" "$theirs" >>"$rows" 2>/dev/null
  if [ $rc -eq 77 ]; then
    rm -f "$ours" "$theirs"
    return 77
  fi
  python3 "$here/bench/peers/gpu_mlp.py" --compare "$ours" "$theirs" >"$out/.step.md" || return 1
  rm -f "$ours" "$theirs"
}

before=$(smi)
export -f run_tests run_sanitizer run_step run_kernels
export build out bench rows tests here
part tests 200 bash -c run_tests
part kernels 300 bash -c run_kernels
part dispatch 20 "$bench" dispatch --json "$rows" --page "$out/.dispatch.md"
after=$(smi)
part step 150 bash -c run_step
part memcheck 60 bash -c "run_sanitizer memcheck --padding 2048 '$bench' check --without vendor"
part initcheck 45 bash -c "run_sanitizer initcheck '$bench' check --without vendor --poison no"
part racecheck 60 bash -c "run_sanitizer racecheck '$bench' check --without vendor --only $shared"
part synccheck 45 bash -c "run_sanitizer synccheck '$bench' check --without vendor --only $shared"

# --- the page ---
{
  printf '# GPU gate\n\n%s\n\n%s\n\n' "$date" "$probe"
  printf 'driver, SM clock, power, temperature: before %s; after the kernels %s\n\n' \
    "${before:-unknown}" "${after:-unknown}"
  printf '| part | result | seconds |\n|---|---|---|\n'
  tail -n +2 "$record" | awk -F '\t' '{printf "| %s | %s | %s |\n", $1, $2, $3}'
  for name in "${waiting[@]}"; do echo "| $name | left | |"; done
  echo
  [ -s "$out/.step.md" ] && cat "$out/.step.md"
  if [ -s "$out/.dispatch.md" ]; then
    printf '## Queueing an operator\n\nHost time of one add of one element, us.\n\n'
    printf '| what | who | median | p10 | p90 |\n|---|---|---|---|---|\n'
    cat "$out/.dispatch.md"
    echo
  fi
  [ -s "$out/.kernels.md" ] && cat "$out/.kernels.md"
} >"$page"
failed=$(tail -n +2 "$record" | awk -F '\t' '$2 ~ /^FAILED/ {print $1}' | paste -sd' ')
if [ ${#waiting[@]} -eq 0 ]; then
  rm -f "$out"/.kernels.md "$out"/.dispatch.md "$out"/.step.md "$record"
  cat "$out"/memcheck.log "$out"/initcheck.log "$out"/racecheck.log "$out"/synccheck.log \
    >"$out/sanitizer.log" 2>/dev/null
  rm -f "$out"/memcheck.log "$out"/initcheck.log "$out"/racecheck.log "$out"/synccheck.log
  rm -f "$out/dispatch.log"
fi

took="$((SECONDS - started)) s; $page"
more=
[ ${#waiting[@]} -gt 0 ] && more="; left: ${waiting[*]} - call again: tools/gpu_gate.sh $out"
if [ -n "$failed" ]; then
  echo "GPU gate FAILED: $failed ($took)$more"
  exit 1
elif [ -n "$more" ]; then
  echo "GPU gate goes on ($took)$more"
  exit 3
fi
echo "GPU gate passed in $took"
