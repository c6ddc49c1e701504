#!/usr/bin/env bash
# Everything that tries to break warptape from outside, part after part, with one table at the end:
#   files        damaged files of every format given to the readers (tools/fuzz.sh)
#   operators    calls of every operator with arguments of any kind (tools/fuzz.sh --operators)
#   kills        SIGKILL inside the checkpoint writer (tools/kill_harness.sh)
#   faults       every system call of every writer failing, every allocation of a step, damaged state
#   runs         wt train with closed descriptors, readers that go away, late signals, a full disk
#   threads      tools/examples/threads.cpp under ThreadSanitizer (tools/tsan.sh)
# A part that breaks something prints what its program said; exit code 1.
#
#   tools/attack.sh [--long] [--build DIR] [--seed S] [--output FILE] [--jobs N] [PART...]
#       By the wt_tests and wt of DIR (build/ci); about a minute, or with --long an hour or two, then
#       also by wt_tests_asan if DIR has it. FILE gets the table; of a page (.md) the lines
#       between "<!-- attack" and "<!-- end of attack".
set -uo pipefail
cd "$(dirname "$0")/.."
long=0 build=build/ci seed=1 output="" jobs=$(nproc) all=(files operators kills faults runs threads)
parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --long) long=1; shift; continue ;;
    --build) build=${2:?} ;;
    --seed) seed=${2:?} ;;
    --output) output=${2:?} ;;
    --jobs) jobs=${2:?} ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) echo "attack: unknown option $1 (tools/attack.sh --help)" >&2; exit 2 ;;
    *)
      case " ${all[*]} " in
        *" $1 "*) parts+=("$1") ;;
        *) echo "attack: unknown part $1 (there are ${all[*]})" >&2; exit 2 ;;
      esac
      shift
      continue ;;
  esac
  shift 2
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
for program in wt_tests wt; do
  [ -x "$build/$program" ] ||
    { echo "attack: $build/$program is not there (cmake --build $build --target $program)" >&2; exit 2; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rows=() passed=0 failed=0 skipped=0

# Each part says in $tried what it has tried and how often; 77: it cannot be tried here.
files() {
  local cases=10000
  [ $long = 0 ] || cases=1000000
  tools/fuzz.sh --build "$build" --cases $cases --seed "$seed" --jobs "$jobs" || return 1
  tried=$(sum_of "files" "damaged files")
}
operators() {
  local cases=30000
  [ $long = 0 ] || cases=1000000
  tools/fuzz.sh --operators --build "$build" --cases $cases --seed "$seed" --jobs "$jobs" || return 1
  tried=$(sum_of "calls" "calls of operators")
}
# sum_of UNIT WORDS: the numbers of fuzz.sh's report lines, "passed N UNIT, S s: NAME"
sum_of() {
  sed -nE "s/^[a-zA-Z]+ ([0-9]+) $1, .*/\1/p" "$scratch/out" |
    awk -v words="$2" '{n += $1; ++k} END {printf "%d %s in %d kinds, seed '"$seed"'", n, words, k}'
}
kills() {
  local n=40
  [ $long = 0 ] || n=2000
  tools/kill_harness.sh --build "$build" --kills $n || return 1
  tried=$(sed -nE 's/^passed ([a-z]+).*: ([0-9]+), of which ([0-9]+) left.*/\2 kills in \1, \3 of them inside a write/p' \
    "$scratch/out" | paste -sd ';' | sed 's/;/; /g')
}
# The cases that fail every call in turn, found by their names.
fault_cases=("write faults*" "training faults*" "allocation faults*" "trainer: at every write*"
  "trainer: with --on-write-error*" "trainer: a number of a checkpoint*" "*at every failing system call*"
  "*at every system call*")
faults() {
  local program cases=0 assertions=0 of_program
  for program in wt_tests wt_tests_asan; do
    [ $program = wt_tests ] || { [ $long = 1 ] && [ -x "$build/$program" ]; } || continue
    # A comma between patterns is "or".
    "$build/$program" "$(IFS=,; echo "${fault_cases[*]}")" || return 1
  done
  read -r assertions cases < <(sed -nE \
    's/^All tests passed \(([0-9]+) assertions? in ([0-9]+) test cases?\)$/\1 \2/p' "$scratch/out" |
    awk '{a += $1; c += $2} END {print a + 0, c + 0}')
  [ "$cases" -gt 0 ] || { echo "no case ran"; return 1; }
  tried="$cases cases, $assertions checks: every call in turn"
}
runs() {
  local part rounds=1 i n=0
  [ $long = 0 ] || rounds=20
  for ((i = 0; i < rounds; ++i)); do
    for part in descriptors pipes signals full; do
      echo "wt_faults_test.sh $part"
      tests/tools/wt/wt_faults_test.sh "$build/wt" $part || return 1
      n=$((n + 1))
    done
  done
  tried="$n rounds of closed descriptors, lost readers, signals, a full disk"
}
# With --long alone: it compiles the library anew. CI runs tools/tsan.sh by itself.
threads() {
  [ $long = 1 ] || return 77
  tools/tsan.sh --jobs "$jobs" || return
  tried="example_threads under ThreadSanitizer"
}

row() { rows+=("| $1 | $2 | $3 | $4 |"); }
for part in "${parts[@]}"; do
  echo "== $part"
  begin=$SECONDS tried=""
  # Not a pipe: the function sets $tried. Its output is there before it reads it.
  $part >"$scratch/out" 2>&1
  case $? in
    0) passed=$((passed + 1)); row "$part" "$tried" passed "$((SECONDS - begin)) s" ;;
    77) skipped=$((skipped + 1)); row "$part" "-" skipped "-" ;;
    *)
      failed=$((failed + 1))
      row "$part" "-" FAILED "$((SECONDS - begin)) s"
      tail -60 "$scratch/out" ;;
  esac
  echo "== $part: $((SECONDS - begin)) s"
done

table() {
  local model
  model=$(sed -nE 's/^model name[^:]*: *(.*)/\1/p' /proc/cpuinfo | head -1)
  echo "Commit $(git describe --always --abbrev=12 --dirty --exclude='*' 2>/dev/null || echo unknown), $(date +%F)," \
    "${model:-an unknown processor}, $(nproc) cores, no GPU$([ $long = 0 ] || echo ', --long')."
  echo
  echo "| part | tried | result | time |"
  echo "|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
}
echo
table | tee "$scratch/table"
if [[ $output = *.md ]]; then
  awk -v table="$scratch/table" '
    /^<!-- end of attack/ { inside = 0 }
    !inside { print }
    /^<!-- attack/ { inside = 1; while ((getline line < table) > 0) print line }' "$output" \
    >"$scratch/page" && cp "$scratch/page" "$output"
elif [ -n "$output" ]; then
  cp "$scratch/table" "$output"
fi
echo
echo "attack: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
