#!/usr/bin/env bash
# tools/examples/threads.cpp and, with --ranks, the tests of ranks that are threads (tests/dist) under
# ThreadSanitizer: library and programs built with it in build/tsan (WT_TSAN_BUILD), but for the
# kernels of simt, whose lanes have stacks of their own. Exit code 1 for a data race or a wrong
# answer; 77 where the compiler has no ThreadSanitizer. docs/threads.md says what the first program
# holds.
#
#   tools/tsan.sh [--ranks] [--steps N] [--jobs N]      N steps of each model: 6
set -euo pipefail
cd "$(dirname "$0")/.."
steps=6 jobs=$(nproc) ranks=0
while [ $# -gt 0 ]; do
  case $1 in
    --ranks) ranks=1; shift; continue ;;
    --steps) steps=${2:?} ;;
    --jobs) jobs=${2:?} ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "tsan: unknown option $1 (tools/tsan.sh --help)" >&2; exit 2 ;;
  esac
  shift 2
done
build=${WT_TSAN_BUILD:-build/tsan}
mkdir -p "$build"
echo 'int main() {}' >"$build/probe.cpp"
"${CXX:-c++}" -fsanitize=thread "$build/probe.cpp" -o "$build/probe" 2>/dev/null ||
  { echo "SKIPPED: ${CXX:-c++} has no ThreadSanitizer (apt-get install libtsan2)"; exit 77; }
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWARPTAPE_FLAVOURS=thread \
  -DWARPTAPE_BUILD_TESTS=OFF -DWARPTAPE_WITH_CUDA=OFF -DWARPTAPE_UNITY=ON \
  -DWARPTAPE_WERROR=ON >"$build/log" 2>&1 &&
  cmake --build "$build" --parallel "$jobs" --target example_threads >>"$build/log" 2>&1 ||
  { tail -20 "$build/log"; echo "tsan: the program cannot be built (all of it in $build/log)" >&2; exit 1; }
tests=
if [ $ranks = 1 ]; then
  tests=$build/thread_tests
  cmake --build "$build" --parallel "$jobs" --target thread_tests >>"$build/log" 2>&1 ||
    { tail -20 "$build/log"; echo "tsan: the tests cannot be built (all of it in $build/log)" >&2; exit 1; }
fi
# Address randomisation with more bits than ThreadSanitizer's map has stops it at its start.
watched() {
  TSAN_OPTIONS="halt_on_error=0 exitcode=66 second_deadlock_stack=1 ${TSAN_OPTIONS:-}" \
    OPENBLAS_NUM_THREADS=1 setarch "$(uname -m)" -R "$@"
}
watched "$build/example_threads" --steps "$steps"
# One test starts ranks in forked children, which ThreadSanitizer bears only while the process has no
# other threads: that one has a process without the kernels' helpers.
if [ -n "$tests" ]; then
  watched "$tests" "~sharded checkpoint: wherever*"
  watched "$tests" "sharded checkpoint: wherever*"
fi
echo "no data race"
