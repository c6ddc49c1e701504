#!/usr/bin/env bash
# Damaged files by the million: the fuzz cases of the tests ("whatever is done to a file") with more
# files and other seeds, a process a core. What a reader takes must be what is there; everything else
# is a DataError that names the file. Exit code 1 if a process fails; its seed is printed.
# --operators: calls of every operator instead ("whatever they are called with"), which must be
# refused or right (tests/fuzz/operators_test.cpp); a failure prints the call's WT_FUZZ_CALL.
#
#   tools/fuzz.sh [--operators | --guided] [--cases N] [--seconds S] [--seed S] [--build DIR]
#                 [--only PATTERN] [--jobs N] [--output FILE]
#       N files a format, or N calls (1000000), by the wt_tests of DIR (build/ci), or wt_tests_asan if DIR has
#       it and WT_FUZZ_ASAN=1 is set; again with other seeds until S seconds are over, if that is
#       given. FILE gets the result after every round.
#   --guided: by libFuzzer, which keeps what reaches new code, under ASan and UBSan: builds tests/fuzz
#       with clang in build/fuzz (WT_FUZZ_BUILD). It begins with files that the tests' damage left
#       good and keeps what it finds in build/fuzz/corpus; a file that fails is in build/fuzz/failed.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=1000000 seconds=0 seed=1 build=build/ci only="" jobs=$(nproc) output="" guided=0
what="whatever is done to a file" unit=files
while [ $# -gt 0 ]; do
  case $1 in
    --guided) guided=1; shift; continue ;;
    --operators) what="whatever they are called with" unit=calls; shift; continue ;;
    --cases) cases=${2:?} ;;
    --seconds) seconds=${2:?} ;;
    --seed) seed=${2:?} ;;
    --build) build=${2:?} ;;
    --only) only=${2:?} ;;
    --jobs) jobs=${2:?} ;;
    --output) output=${2:?} ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "fuzz: unknown option $1 (tools/fuzz.sh --help)" >&2; exit 2 ;;
  esac
  shift 2
done
program=$build/wt_tests
[ "${WT_FUZZ_ASAN:-0}" = 0 ] || program=$build/wt_tests_asan
[ -x "$program" ] || { echo "fuzz: $program is not there (cmake --build $build --target wt_tests)" >&2; exit 2; }

# Catch2 has wildcards at the ends of a name only.
mapfile -t names < <("$program" "*$what*" --list-test-names-only |
  grep -F -- "$only" || true)
[ ${#names[@]} -gt 0 ] || { echo "fuzz: no case has '$only' in its name" >&2; exit 2; }
tree=${WT_FUZZ_BUILD:-build/fuzz}
if [ $guided = 1 ]; then
  command -v clang++ >/dev/null || { echo "SKIPPED: clang is not installed (apt-get install clang)"; exit 77; }
  mkdir -p "$tree/failed"
  cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++ \
    -DWARPTAPE_FLAVOURS=fuzz -DWARPTAPE_BUILD_TESTS=OFF -DWARPTAPE_WITH_CUDA=OFF >"$tree/log" 2>&1 &&
    cmake --build "$tree" --parallel "$jobs" --target fuzz_targets >>"$tree/log" 2>&1 ||
    { tail -20 "$tree/log"; echo "fuzz: the programs cannot be built (all of it in $tree/log)" >&2; exit 1; }
fi
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$scratch"' EXIT
result=0
declare -A count=() time=() state=() edges=()
write_report() {
  local name
  if [ $unit = calls ]; then
    echo "# Written by tools/fuzz.sh --operators: calls of every operator with arguments of any kind."
  else
    echo "# Written by tools/fuzz.sh: damaged files given to each reader."
  fi
  echo "commit $(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || echo unknown)"
  echo "date $(date +%F)"
  if [ $guided = 1 ]; then
    echo "libFuzzer, ASan and UBSan, rounds with seeds $seed to $round; the branches of library and test that were reached"
  else
    echo "program ${program##*/}, rounds with seeds $seed to $round"
  fi
  for name in "${names[@]}"; do
    [ -z "${count[$name]:-}" ] ||
      echo "${state[$name]} ${count[$name]} $unit, ${time[$name]} s: ${name%%:*}${edges[$name]:+, ${edges[$name]} branches}"
  done
}
# start NAME J: one process over $share files
start() {
  local format=${1%%:*} number=$((round * 1000 + $2))
  if [ $guided = 0 ]; then
    WT_FUZZ_CASES=$share WT_FUZZ_SEED=$number "$program" "${1//,/\\,}"
    return
  fi
  "$tree/fuzz_$(reader "$format")" -runs="$share" -seed="$number" -max_len=8192 -print_final_stats=1 \
    -artifact_prefix="$tree/failed/$format-" "$tree/corpus/$format"
}
# reader FORMAT: pictures have one reader
reader() { case $1 in png | ppm) echo image ;; *) echo "$1" ;; esac; }
# begin_with NAME: good files, unless an earlier run has left some
begin_with() {
  local corpus=$tree/corpus/${1%%:*}
  [ $guided = 1 ] || return 0
  mkdir -p "$corpus"
  [ -z "$(ls -A "$corpus")" ] || return 0
  WT_FUZZ_CASES=1000 WT_FUZZ_SEEDS=$corpus "$program" "${1//,/\\,}" >/dev/null || true
}
# fuzz NAME: one round of one format
fuzz() {
  local name=$1 begin=$SECONDS j ran pids=()
  share=$(((cases + jobs - 1) / jobs))
  begin_with "$name"
  for ((j = 0; j < jobs; ++j)); do
    start "$name" $j >"$scratch/out.$j" 2>&1 &
    pids+=($!)
  done
  : "${state[$name]:=passed}"
  for ((j = 0; j < jobs; ++j)); do
    wait "${pids[j]}" && ran=$(sed -nE 's/^operators: ([0-9]+) calls, .*/\1/p' "$scratch/out.$j") &&
      [ "${ran:-$share}" = "$share" ] && continue
    state[$name]=FAILED result=1
    echo "FAILED with $share $unit of seed $((round * 1000 + j)): $name"
    tail -40 "$scratch/out.$j"
  done
  count[$name]=$((${count[$name]:-0} + share * jobs))
  time[$name]=$((${time[$name]:-0} + SECONDS - begin))
  [ $guided = 0 ] || edges[$name]=$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$scratch"/out.* | sort -n | tail -1)
}
round=$seed
while :; do
  for name in "${names[@]}"; do
    fuzz "$name"
    if [ -n "$output" ]; then write_report >"$output"; fi
    if [ "$seconds" -gt 0 ] && [ "$SECONDS" -ge "$seconds" ]; then break 2; fi
  done
  [ "$SECONDS" -lt "$seconds" ] || break
  round=$((round + 1))
done
write_report
exit $result
