#!/usr/bin/env bash
# What is too dear for every change: all of UBSan with instrumented tests, the builds without unity
# batches, as a shared library, with the Makefile generator and with clang. The last line counts.
#
#   tools/nightly.sh [PART...]    parts: ubsan plain consumers shared makefiles clang; all of them
set -uo pipefail
cd "$(dirname "$0")/.."
all=(ubsan plain consumers shared makefiles clang)
[ $# -gt 0 ] || set -- "${all[@]}"
for name in "$@"; do
  case " ${all[*]} " in
    *" $name "*) ;;
    *) echo "nightly: unknown part $name (there are ${all[*]})" >&2; exit 2 ;;
  esac
done
asked() { case " $asked_for " in *" $1 "*) ;; *) return 1 ;; esac; }
asked_for=$*
jobs=$(nproc)
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
part ubsan plain -G Ninja -DWARPTAPE_SANITIZE=ON -DWARPTAPE_NIGHTLY=ON -DWARPTAPE_WITH_CUDA=OFF
part plain plain -G Ninja
if asked consumers; then
  echo "== consumers"
  tree=build/nightly-plain
  [ -d $tree ] || tree=build/ci
  if tests/consumers/run.sh $tree --all; then
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
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
