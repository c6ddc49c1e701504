#!/usr/bin/env bash
# What is too dear for every change: all of UBSan with instrumented tests, the builds without unity
# batches, as a shared library, with the Makefile generator and with clang, which lines the tests run
# (tools/coverage.sh), which planted faults they find (tools/mutate.sh), a long training run
# (tools/soak.sh), kills of the checkpoint writer (tools/kill_harness.sh), damaged files (tools/fuzz.sh,
# a million a format, at random and guided by coverage), all attacks from outside at length
# (tools/attack.sh --long), what the emulated cuda device runs with 20 seeds of interleaving, whether
# every file compiles within its budget when no compiler cache hides it, and the machine code of the
# kernels for sm_80 too. The last line counts.
#
#   tools/nightly.sh [--commit] [PART...]    all parts, or some of: ubsan plain consumers shared
#                                            makefiles clang cold emulator sass coverage mutants soak
#                                            kills fuzz guided attack
#   --commit: the results of the last seven, in bench/results and docs/assurance.md, become a commit
#   of their own
set -uo pipefail
cd "$(dirname "$0")/.."
all=(ubsan plain consumers shared makefiles clang cold emulator sass coverage mutants soak kills fuzz guided attack)
commit=0
case ${1:-} in
  --commit) commit=1; shift ;;
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' tools/nightly.sh; exit 0 ;;
esac
[ $# -gt 0 ] || set -- "${all[@]}"
for name in "$@"; do
  case " ${all[*]} " in
    *" $name "*) ;;
    *) echo "nightly: unknown part $name (there are ${all[*]})" >&2; exit 2 ;;
  esac
done
asked() { case " $asked_for " in *" $1 "*) ;; *) return 1 ;; esac; }
asked_for=$*
jobs=${WT_JOBS:-$(nproc)}
passed=0 failed=0 skipped=0
# part NAME TESTS CONFIGURE_ARGS...: TESTS is "" (build only) or a ctest label expression.
part() {
  local name=$1 label=$2 dir=build/nightly-$1
  asked "$name" || return 0
  shift 2
  echo "== $name"
  if cmake -S . -B "$dir" -DCMAKE_BUILD_TYPE=Release -DWARPTAPE_WERROR=ON "$@" >"$dir.log" 2>&1 &&
    cmake --build "$dir" --parallel "$jobs" >>"$dir.log" 2>&1 &&
    { [ -z "$label" ] || ctest --test-dir "$dir" -L "$label" --parallel "$jobs" \
      --no-tests=error --output-on-failure >>"$dir.log" 2>&1; }; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -40 "$dir.log"
    echo "FAILED: $name (all of it in $dir.log)"
  fi
}
mkdir -p build
part ubsan plain -G Ninja -DWARPTAPE_FLAVOURS=ubsan -DWARPTAPE_WITH_CUDA=OFF
part plain plain -G Ninja
if asked consumers; then
  echo "== consumers"
  tree=build/nightly-plain
  [ -d $tree ] || tree=build/ci
  if tests/consumers/run.sh $tree; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: consumers"
  fi
fi
part shared core -G Ninja -DWARPTAPE_SHARED=ON -DWARPTAPE_WITH_CUDA=OFF
part makefiles "" -G "Unix Makefiles" -DWARPTAPE_WITH_CUDA=OFF
if ! asked clang; then
  :
elif command -v clang++ >/dev/null; then
  part clang plain -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DWARPTAPE_WITH_CUDA=OFF
else
  echo "SKIPPED: clang is not installed (apt-get install clang)"
  skipped=$((skipped + 1))
fi
if asked cold; then
  CCACHE_DISABLE=1 part cold "" -G Ninja -DWARPTAPE_FLAVOURS="plain;asan;race" -DWARPTAPE_UNITY=ON \
    -DWARPTAPE_TIME_COMPILES=ON
  if ! cmake/budget.sh build/nightly-cold/compile_times.log; then
    failed=$((failed + 1))
    echo "FAILED: compile-time budget"
  fi
fi
if asked emulator; then
  echo "== emulator"
  tree=build/nightly-plain
  [ -d $tree ] || tree=build/ci
  if ! grep -q '^WARPTAPE_NVCC:FILEPATH=/' $tree/CMakeCache.txt; then
    echo "SKIPPED: no CUDA toolkit, so no PTX"
    skipped=$((skipped + 1))
  elif WT_EMU_SEEDS="$(seq -s ' ' 1 20)" ctest --test-dir $tree -L '^ptx$' --parallel "$jobs" \
    --timeout 7200 --no-tests=error --output-on-failure; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: emulator"
  fi
fi
if asked sass; then
  echo "== machine code"
  tree=build/nightly-plain
  [ -d $tree/CMakeFiles/wt_kernels_cuda.dir ] || tree=build/ci
  for arch in sm_90a sm_80; do
    tools/sass_gate.sh --arch $arch --build $tree --jobs "$jobs"
    case $? in
      0) passed=$((passed + 1)) ;;
      77) skipped=$((skipped + 1)) ;;
      *) failed=$((failed + 1)); echo "FAILED: machine code of the kernels for $arch" ;;
    esac
  done
fi
# measure NAME FILE COMMAND...: the command writes FILE, whatever it thinks of the result.
measured=()
measure() {
  local name=$1 file=$2 rc
  asked "$name" || return 0
  shift 2
  echo "== $name"
  "$@" --jobs "$jobs" --output "$file"
  rc=$?
  case $rc in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)); echo "FAILED: $name" ;;
  esac
  if git status --porcelain -- "$file" | grep -q .; then measured+=("$file"); fi
}
mkdir -p bench/results
measure coverage bench/results/coverage.txt tools/coverage.sh
measure mutants bench/results/mutants.txt tools/mutate.sh --seed "${WT_SEED:-$(date +%F)}"
tree=build/nightly-plain
[ -x $tree/wt_tests ] || tree=build/ci
measure soak bench/results/soak.txt tools/soak.sh --build $tree
measure kills bench/results/kills.txt tools/kill_harness.sh --build $tree
measure fuzz bench/results/fuzz.txt tools/fuzz.sh --build $tree
measure guided bench/results/fuzz_guided.txt tools/fuzz.sh --guided --build $tree
measure attack docs/assurance.md tools/attack.sh --long --build $tree
if [ ${#measured[@]} -gt 0 ]; then  # a page shows what these files say
  if python3 tools/benchmarks.py --write; then measured+=(docs/benchmarks.md); else failed=$((failed + 1)); fi
fi
if [ $commit = 1 ] && [ ${#measured[@]} -gt 0 ]; then
  of=$(git rev-parse --short=12 HEAD)
  git add -- "${measured[@]}" && git commit -q -m "Results: what the nightly run measured of $of" \
    -- "${measured[@]}" || failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
