#!/usr/bin/env bash
# Damaged files by the million: the fuzz cases of the tests ("whatever is done to a file") with more
# files and other seeds, a process a core. What a reader takes must be what is there; everything else
# is a DataError that names the file. Exit code 1 if a process fails; its seed is printed.
#
#   tools/fuzz.sh [--cases N] [--seconds S] [--seed S] [--build DIR] [--only PATTERN] [--jobs N]
#                 [--output FILE]
#       N files a format (1000000) by the wt_tests of DIR (build/ci), or of wt_tests_asan if DIR has
#       it and WT_FUZZ_ASAN=1 is set; again with other seeds until S seconds are over, if that is
#       given. FILE gets the result after every round. 100 M files a format take a core 1 to 4 hours.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=1000000 seconds=0 seed=1 build=build/ci only="" jobs=$(nproc) output=""
while [ $# -gt 0 ]; do
  case $1 in
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
mapfile -t names < <("$program" "*whatever is done to a file*" --list-test-names-only |
  grep -F -- "$only" || true)
[ ${#names[@]} -gt 0 ] || { echo "fuzz: no case has '$only' in its name" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$scratch"' EXIT
result=0
declare -A count=() time=() state=()
write_report() {
  local name
  echo "# Written by tools/fuzz.sh: damaged files given to each reader."
  echo "commit $(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || echo unknown)"
  echo "date $(date +%F)"
  echo "program ${program##*/}, rounds with seeds $seed to $round"
  for name in "${names[@]}"; do
    [ -z "${count[$name]:-}" ] ||
      echo "${state[$name]} ${count[$name]} files, ${time[$name]} s: ${name%%:*}"
  done
}
# fuzz NAME: one round of one format
fuzz() {
  local name=$1 begin=$SECONDS share=$(((cases + jobs - 1) / jobs)) j pids=()
  for ((j = 0; j < jobs; ++j)); do
    WT_FUZZ_CASES=$share WT_FUZZ_SEED=$((round * 1000 + j)) \
      "$program" "${name//,/\\,}" >"$scratch/out.$j" 2>&1 &
    pids+=($!)
  done
  : "${state[$name]:=passed}"
  for ((j = 0; j < jobs; ++j)); do
    wait "${pids[j]}" && continue
    state[$name]=FAILED result=1
    echo "FAILED with WT_FUZZ_CASES=$share WT_FUZZ_SEED=$((round * 1000 + j)): $name"
    tail -40 "$scratch/out.$j"
  done
  count[$name]=$((${count[$name]:-0} + share * jobs))
  time[$name]=$((${time[$name]:-0} + SECONDS - begin))
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
