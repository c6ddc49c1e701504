#!/usr/bin/env bash
# Everything CI runs: set-up, formatting, the build with every test flavour (and nvcc where it is),
# the headers one by one, what nvcc made of the kernels (tools/sass_gate.sh), what a machine with a GPU
# is given, the tests, among them those of cuda on the emulated device, threads under
# ThreadSanitizer, the build without CUDA, the compile-time budget. The last line is "N passed, N
# failed, N skipped": test cases and the other checks together. Before it stands what cost what, which
# is held against bench/results/test_cost.txt (tools/test_cost.sh).
#
#   tools/test.sh [--no-setup] [--only LABEL] [--update-cost]
#   tools/test.sh --quick
#
#   --only LABEL    the tests with this ctest label
#   --quick         before a commit: formatting, wt and wt_tests, the plain tests of at most 5 s that
#                   need nothing else; meant for 4 minutes on two cores with a warm compiler cache
#   --update-cost   writes the figure of the cost anew instead
set -uo pipefail
cd "$(dirname "$0")/.."
setup=1 quick=0 only=() update=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-setup) setup=0 ;;
    --only) only=(-L "^${2:?--only needs a label}$"); shift ;;
    --quick) quick=1 setup=0 ;;
    --update-cost) update=(--update) ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' tools/test.sh; exit 0 ;;
    *) echo "test: unknown option $1 (there are --no-setup, --only LABEL, --quick, --update-cost, --help)" >&2; exit 2 ;;
  esac
  shift
done
program=test build=build/ci
# shellcheck source=tools/checks.sh
source tools/checks.sh
can_write $build 4000
of_this_tree $build
[ $setup = 1 ] || new_enough
alone $build

passed=0 failed=0 skipped=0 bad=()
begin=$SECONDS slow=1
costs=$(mktemp -d)
trap 'rm -rf "$costs"' EXIT
# Sets cpu to the CPU seconds of all that was started and has ended.
count_cpu() {
  times >"$costs/now"  # in no subshell: that would be another process's
  cpu=$(awk -F'[ms ]+' 'NR == 2 { printf "%.1f", $1 * 60 + $2 + $3 * 60 + $4 }' "$costs/now")
}
# paid NAME SECONDS CPU_BEFORE: a row of the table of costs. The machine's slowness is asked anew
# after a part for which that is worth a second.
paid() {
  local spent
  count_cpu
  spent=$(awk -v from="$3" -v to="$cpu" 'BEGIN { printf "%.1f", to - from }')
  [ "${spent%.*}" -lt 20 ] || slow=$(cmake/slowness.sh 1)
  echo "$2 $spent $slow $1" >>"$costs/parts"
}
# Compilations that the cache had not and had: other builds at work meanwhile count too.
compilations() {
  ccache --print-stats 2>/dev/null |
    awk '$1 == "cache_miss" { m = $2 } $1 ~ /^(direct|preprocessed)_cache_hit$/ { h += $2 } END { print m + 0, h + 0 }'
}
finish() {
  echo
  [ ${#bad[@]} -eq 0 ] || printf 'failed: %s\n' "${bad[@]}"
  echo "test: $((SECONDS - begin)) s"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}
# check NAME COMMAND...: one check; exit code 77 means skipped. False if it failed.
check() {
  local name=$1 rc at=$SECONDS from
  shift
  count_cpu
  from=$cpu
  echo
  echo "== $name"
  "$@"
  rc=$?
  case $rc in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); echo "SKIPPED: $name" ;;
    *) failed=$((failed + 1)); bad+=("$name"); echo "FAILED: $name (exit code $rc)" ;;
  esac
  echo "== $name: $((SECONDS - at)) s"
  paid "$name" $((SECONDS - at)) "$from"
  [ $rc -eq 0 ] || [ $rc -eq 77 ]
}

jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1

compile() { explained cmake --build "$build" --parallel "$jobs" --target "${@:-all}"; }
# What ran on the emulated cuda device, summed over the lines with which its runs end.
emulated() {
  awk '/^emulator: [0-9]+ launches of / {
      runs++; launches += $2; kernels = $5 > kernels ? $5 : kernels; warps += $7; lanes += $10 }
    END { if (runs) printf "emulated cuda: %d runs, %d launches (of up to %d kernels a run), " \
      "%.0f million warp instructions, %.0f million of lanes\n", runs, launches, kernels, warps / 1e6, lanes / 1e6 }' "$1"
}
run_ctest() {
  local rc at=$SECONDS p f s sums from
  count_cpu
  from=$cpu
  echo
  echo "== tests"
  ctest --test-dir "$build" --parallel "$jobs" --no-tests=error "${only[@]}" 9>&-  # tests count them
  rc=$?
  # Cases, not entries: every entry's log ends in "cases: N passed, N failed, N skipped".
  sums=$(awk '/^cases: [0-9]+ passed/ {p += $2; f += $4; s += $6} END {print p + 0, f + 0, s + 0}' \
    "$build/Testing/Temporary/LastTest.log")
  read -r p f s <<<"$sums"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  if [ "$rc" -ne 0 ]; then
    bad+=("tests")
    [ "$f" -gt 0 ] || failed=$((failed + 1))  # a time-out leaves no line
  fi
  echo "== tests: $((SECONDS - at)) s"
  paid tests $((SECONDS - at)) "$from"
  echo
  grep -h -e '^operators: ' -e "^PyTorch's numbers: " -e '^planted faults of cuda' \
    "$build/Testing/Temporary/LastTest.log" | sort -u
  emulated "$build/Testing/Temporary/LastTest.log"
}
# The library, wt and the plain tests as on a machine that has no CUDA toolkit. The objects are the
# same, so the compiler cache answers for nearly all of them.
without_cuda() {
  if ! grep -q '^WARPTAPE_NVCC:FILEPATH=/' "$build/CMakeCache.txt"; then
    echo "this machine has no CUDA toolkit: the build above was it"
    return 0
  fi
  cmake --preset cpu-only -DWARPTAPE_UNITY=ON -DWARPTAPE_WERROR=ON >/dev/null &&
    cmake --build build/cpu-only --parallel "$jobs" --target wt wt_tests &&
    ctest --test-dir build/cpu-only -L core --parallel "$jobs" --no-tests=error |
    grep -v -e '^ *Start ' -e ' Passed '
}

# Only what wt and wt_tests are enough for: other labels and entries need other programs.
quick() {
  local slow_ones
  slow_ones=$(tools/test_cost.sh --slow)
  check "format" tools/format.sh --check
  check "configure" explained cmake --preset ci || finish
  check "build" compile wt wt_tests || finish
  only=(-L '^plain$' -LE '^(attack|build|emulator|examples|fuzz|gpu|ptx)$'
    -E "^bench/gpu_${slow_ones:+|$slow_ones}")
  run_ctest
  finish
}
what_it_cost() {
  local misses hits
  read -r misses hits <<<"$(compilations)"
  command -v ccache >/dev/null || misses=1  # no cache is a cold one
  tools/test_cost.sh "${update[@]}" "$costs/parts" "$build/Testing/Temporary/LastTest.log" \
    $((misses - had[0])) $((hits - had[1]))
}

[ $quick = 0 ] || quick
read -ra had <<<"$(compilations)"
if [ $setup = 1 ]; then check "set-up" tools/setup.sh --tests --course || finish; fi
check "format" tools/format.sh --check
check "configure" explained cmake --preset ci || finish
rm -f "$build/compile_times.log"
check "build" compile || finish
check "headers compile alone" compile all_verify_interface_header_sets
check "machine code of the kernels" tools/sass_gate.sh --build "$build" --jobs "$jobs"
check "pack for a machine with a GPU" tests/tools/gate/gpu_pack_test.sh
run_ctest
check "threads under ThreadSanitizer" tools/tsan.sh --ranks --jobs "$jobs"
check "coverage" tools/coverage.sh --show
check "faults that the tests must find" tools/mutate.sh --again 3 --build "$build"
check "projects that use warptape" tests/consumers/run.sh "$build"
check "build without CUDA" without_cuda
check "cost of the public headers" cmake/header_cost.sh "$build"
check "compile-time budget" cmake/budget.sh "$build/compile_times.log"
[ ${#only[@]} -gt 0 ] || [ "$failed" -gt 0 ] || check "cost of all this" what_it_cost
finish
