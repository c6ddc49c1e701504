#!/usr/bin/env bash
# The scripts that judge the others: what run_case.sh makes of a test program's output, and whether
# budget.sh sees a slow file, header_cost.sh a dear header, coverage.sh too few lines; what ptxas.sh
# keeps and what it shows; and for whom quickstart.sh builds the cuda device.
set -u
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0

# expect NAME EXIT LAST_LINE PROGRAM_TEXT: the program is a shell script.
expect() {
  printf '%s\n' "$4" >"$scratch/program"
  local out rc
  out=$("$here/run_case.sh" bash "$scratch/program" 2>&1)
  rc=$?
  if [ "$rc" != "$2" ] || [ "$(tail -1 <<<"$out")" != "$3" ]; then
    echo "FAILED $1: exit code $rc, wanted $2; said: $(tail -1 <<<"$out"), wanted: $3"
    bad=1
  fi
}
all='echo "All tests passed (9 assertions in 3 test cases)"'
some='echo "test cases: 3 | 2 passed | 1 failed"'
expect passed 0 "cases: 3 passed, 0 failed, 0 skipped" "$all"
expect skipped 77 "cases: 2 passed, 0 failed, 1 skipped" "echo 'SKIPPED: no GPU'; $all"
expect failed 1 "cases: 2 passed, 1 failed, 0 skipped" "$some; exit 1"
expect "failed beside a skip" 1 "cases: 1 passed, 1 failed, 1 skipped" "echo 'SKIPPED: x'; $some; exit 1"
expect crashed 139 "cases: 0 passed, 1 failed, 1 skipped" "echo 'SKIPPED: x'; kill -SEGV \$\$"
expect "leak after passing" 23 "cases: 2 passed, 1 failed, 0 skipped" "$all; exit 23"
expect "a code that is not a skip" 1 "cases: 2 passed, 1 failed, 0 skipped" "$some; exit 77"
expect "nothing ran" 1 "cases: 0 passed, 1 failed, 0 skipped" "true"

# budget LINE EXIT
budget() {
  printf '%s\n' "$1" >"$scratch/log"
  "$here/../../cmake/budget.sh" "$scratch/log" >/dev/null
  local rc=$?
  if [ $rc != "$2" ]; then
    echo "FAILED budget of '$1': exit code $rc, wanted $2"
    bad=1
  fi
}
budget "19.9 CMakeFiles/wt_core.dir/core/x.cpp.o" 0
budget "20.1 CMakeFiles/wt_core.dir/core/x.cpp.o" 1
budget "39.0 CMakeFiles/wt_core.dir/Unity/unity_0_cxx.cxx.o" 0
budget "44.9 CMakeFiles/wt_kernels_cuda.dir/kernels/x.cu.o" 0
budget "45.1 CMakeFiles/wt_kernels_cuda.dir/kernels/x.cu.o" 1
budget "29.0 CMakeFiles/wt_core.dir/core/x.cpp.o 1.5" 0
budget "31.0 CMakeFiles/wt_core.dir/core/x.cpp.o 1.5" 1
# What is above is compiled once more, alone, and the newest line counts.
mkdir -p "$scratch/again"
cat >"$scratch/again/build.ninja" <<'END'
rule cc
  command = printf '%s a.cpp.o\n' "$$(cat seconds)" >>log; : -o $out -c
build a.cpp.o: cc
END
for seconds in 12 33; do
  echo $seconds >"$scratch/again/seconds"
  echo "25 a.cpp.o 1" >"$scratch/again/log"
  "$here/../../cmake/budget.sh" "$scratch/again/log" >"$scratch/said"
  rc=$?
  if [ $rc != $((seconds > 20)) ] || ! grep -q "$seconds.0  CPU seconds in all" "$scratch/said"; then
    echo "FAILED budget of what takes $seconds s alone: exit code $rc, said: $(<"$scratch/said")"
    bad=1
  fi
done

# header_cost.sh: a header that adds nothing to what it includes costs once that.
mkdir -p "$scratch/headers/include" "$scratch/headers/generated/warptape"
echo '#include <vector>' >"$scratch/headers/generated/warptape/warptape.h"
for limit in 0.5 1.5; do
  if WARPTAPE_HEADER_LIMIT=$limit "$here/../../cmake/header_cost.sh" "$scratch/headers" >"$scratch/cost"; then
    within=1.5
  else
    within=0.5
  fi
  if [ $within != $limit ]; then
    echo "FAILED header_cost with limit $limit: $(<"$scratch/cost")"
    bad=1
  fi
done

# timed SLOW_FILE EXIT YARDSTICKS: timed.sh over a compiler that ends at once; a stand-in for the one
# that compiles yardsticks counts them.
printf '#!/bin/sh\necho "$*" >>"$CALLS"\n' >"$scratch/c++"
chmod +x "$scratch/c++"
timed() {
  local rc seconds rest
  : >"$scratch/calls"
  rm -f "$scratch/log"
  CALLS=$scratch/calls PATH=$scratch:$PATH CCACHE_DIR=$scratch/cache WARPTAPE_SLOW_FILE=$1 \
    "$here/../../cmake/timed.sh" "$scratch/log" sh -c "exit $2" -o some.o >/dev/null
  rc=$?
  read -r seconds rest <"$scratch/log"
  if [ $rc != "$2" ] || [[ ! $rest =~ ^some.o\ 1(\.00)?$ ]] || [ "$(wc -l <"$scratch/calls")" != "$3" ]; then
    echo "FAILED timed: exit code $rc, wanted $2; said $seconds $rest after $(<"$scratch/calls")"
    bad=1
  fi
}
timed 10 0 0
timed 0 3 3

# coverage LINES RUN EXIT: coverage.sh with stand-ins for the programs that build and count.
mkdir -p "$scratch/tools" "$scratch/bin" "$scratch/build/coverage"
cp "$here/../../tools/coverage.sh" "$scratch/tools/"
for name in cmake ctest; do printf '#!/bin/sh\n' >"$scratch/bin/$name"; done
cat >"$scratch/bin/gcovr" <<'END'
#!/bin/sh
cp "$COUNTS" build/coverage/coverage.csv
cat >build/coverage/coverage.log <<'TABLE'
core/a.cpp                                    20      20   100%
core/a_file_whose_name_takes_the_whole_column.cpp
                                              30      20    66%   7,9-10
build/coverage/include/warptape/autograd/b.h  50      40    80%   3
TABLE
END
chmod +x "$scratch"/bin/*
coverage() {
  printf 'filename,line_total,line_covered\ncore/a.cpp,50,50\nbuild/coverage/include/warptape/autograd/b.h,%s,%s\n' "$1" "$2" \
    >"$scratch/counts"
  COUNTS=$scratch/counts PATH=$scratch/bin:$PATH "$scratch/tools/coverage.sh" \
    --output "$scratch/result" >"$scratch/said" 2>&1
  local rc=$?
  [ $rc = "$3" ] || { echo "FAILED coverage of $2 in $1 lines: exit code $rc, wanted $3"; bad=1; }
}
coverage 50 40 0
for wanted in 'total           100       90    90.0%' 'autograd/b.h 50 40 80% 3' \
  'core/a_file_whose_name_takes_the_whole_column.cpp 30 20 66% 7,9-10'; do
  grep -qF "$wanted" "$scratch/result" || { echo "FAILED coverage: no line $wanted"; bad=1; }
done
grep -q '^core/a.cpp' "$scratch/result" && { echo "FAILED coverage: a whole file is listed"; bad=1; }
coverage 51 40 1

# ptxas.sh: warnings and the exit code come through, all of it is in the file.
cat >"$scratch/nvcc" <<'END'
#!/bin/sh
echo "ptxas info    : Used 47 registers" >&2
echo "    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads" >&2
echo "ptxas warning : Registers are spilled" >&2
exit 3
END
chmod +x "$scratch/nvcc"
said=$("$here/../../cmake/ptxas.sh" "$scratch/ptxas" "$scratch/nvcc" -o some/dir/x.cu.o 2>&1)
rc=$?
if [ $rc != 3 ] || [ "$said" != "ptxas warning : Registers are spilled" ] ||
  [ "$(wc -l <"$scratch/ptxas/x.cu.txt")" != 3 ]; then
  echo "FAILED ptxas: exit code $rc, said: $said"
  bad=1
fi

# quickstart SMI CUDA SIMT OPTIONS...: quickstart.sh with stand-ins for all it calls. SMI: what
# nvidia-smi prints; CUDA and SIMT: what the build is told.
mkdir -p "$scratch/build/quickstart"
cp "$here/../../tools/quickstart.sh" "$here/../../tools/checks.sh" "$scratch/tools/"
printf '#!/bin/sh\n' >"$scratch/tools/setup.sh"
printf '#!/bin/sh\necho "cmake $*"\n' >"$scratch/bin/cmake"
printf '#!/bin/sh\necho "wt $*"\n' >"$scratch/build/quickstart/wt"
chmod +x "$scratch/tools/setup.sh" "$scratch/build/quickstart/wt"
quickstart() {
  local smi=$1 cuda=$2 simt=$3 out
  shift 3
  printf '#!/bin/sh\necho "%s"\n' "$smi" >"$scratch/bin/nvidia-smi"
  chmod +x "$scratch/bin/nvidia-smi"
  out=$(PATH=$scratch/bin:$PATH "$scratch/tools/quickstart.sh" "$@" 2>&1)
  if ! grep -q -- "^cmake .*-DWARPTAPE_WITH_CUDA=$cuda -DWARPTAPE_WITH_SIMT=$simt " <<<"$out" ||
    [ "$(grep -c '^quickstart: building' <<<"$out")" != 1 ] ||
    ! grep -q '^wt train charlm .* --steps 5$' <<<"$out"; then
    echo "FAILED quickstart $* where nvidia-smi says '$smi': wanted cuda $cuda and simt $simt, said: $out"
    bad=1
  fi
}
quickstart "GPU 0: NVIDIA H100 (UUID: GPU-1)" AUTO OFF --steps 5
quickstart "NVIDIA-SMI has failed" OFF OFF --steps 5
quickstart "NVIDIA-SMI has failed" ON OFF --with-cuda --steps 5
quickstart "NVIDIA-SMI has failed" OFF ON --device simt --steps 5
exit $bad
