#!/usr/bin/env bash
# Instructions of one operator of the tape and of one step of mlp_tiny, counted by callgrind: not
# more than 5 % above the figures in bench/instructions.txt. Counts do not depend on load or clock,
# so this can gate where times cannot. Only wt's own code counts (what libc and OpenBLAS do depends
# on the processor), and only from the end of the warm-up to the last call. With another compiler
# or build than the file names there is nothing to compare with: skipped.
#
#   instructions_test.sh WT BUILD             WT: the program; BUILD: as in the file
#   instructions_test.sh WT BUILD --update    writes the counts of this build into the file: after
#                                             a change that makes them less, or one that is worth
#                                             more. The commit says which.
set -euo pipefail
wt=$1 build=$2 update=${3:-}
figures=$(cd "$(dirname "$0")/../.." && pwd)/bench/instructions.txt
skip() { echo "SKIPPED: $*"; exit 77; }
command -v valgrind >/dev/null || skip "valgrind is not installed (apt-get install valgrind)"
grep -qw avx2 /proc/cpuinfo || skip "the figures are those of a processor with AVX2"
[ -n "$update" ] || grep -q "^$build " "$figures" ||
  skip "no figures for $build in bench/instructions.txt"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

calls=100
env OPENBLAS_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file="$here/out" \
  "$wt" bench overhead --only tape_add --only mlp_tiny --calls $calls >"$here/log" 2>&1 ||
  { cat "$here/log"; exit 1; }
grep -q '^desc: Trigger: Client Request: tape_add' "$here"/out.* ||
  skip "this wt was built before valgrind was installed"

# of ROW: instructions in the program itself. The costs of lines follow the object (ob=) that they
# are in; the line after calls= is the cost of the callee, counted there. Names are given once in a
# file, then by number.
count() {
  local dump
  dump=$(grep -l "^desc: Trigger: Client Request: $1" "$here"/out.*)
  awk -v program="$(basename "$wt")" '
    /^c?ob=/ {
      id = $0; sub(/^c?ob=/, "", id); sub(/\).*/, ")", id)
      if (NF > 1) { name = $0; sub(/^[^ ]* /, "", name); sub(/.*\//, "", name); names[id] = name }
      if ($0 ~ /^ob=/) ours = names[id] == program
      next
    }
    /^calls=/ { getline; next }
    /^[0-9+*-]/ && ours { sum += $2 }
    END { printf "%.0f\n", sum }' "$dump"
}

bad=0
row() {  # ROW UNITS: UNITS operators or steps a call
  local now was
  now=$(($(count "$1") / calls / $2))
  if [ -n "$update" ]; then
    { grep -v "^$build $1 " "$figures" || true; echo "$build $1 $now"; } >"$here/new"
    cat "$here/new" >"$figures"
    echo "$1: $now instructions, written"
    return
  fi
  was=$(awk -v b="$build" -v r="$1" '$1 == b && $2 == r { print $3 }' "$figures")
  echo "$1: $now instructions, ${was:-none} in bench/instructions.txt"
  if [ "$now" -le 0 ] || [ $((now * 100)) -gt $((${was:-0} * 105)) ]; then
    echo "FAILED: $1 grew by more than 5 %. callgrind_annotate says where; if it is worth that:"
    echo "  tests/tools/instructions_test.sh $wt $build --update"
    bad=1
  elif [ $((now * 100)) -lt $((was * 95)) ]; then
    echo "$1: less than 95 % of the figure, which --update would bring up to date"
  fi
}
row tape_add 100
row mlp_tiny 1
exit $bad
