#!/usr/bin/env bash
# What it costs to build warptape, now and at an older commit, side by side: writes docs/build_cost.md.
# CPU seconds, without the compiler cache: they hardly depend on what else runs on the machine.
#
#   tools/build_cost.sh [--base COMMIT] [--all] [--keep FOLDER | --from FOLDER] [--cold LOG] [--warm LOG]
#
# Of each commit: the quickstart's build (wt for the cpu alone), simt besides, and a user's program.
# --all: what tools/test.sh builds too, 45 CPU minutes a commit. --cold and --warm: what tools/test.sh
# printed with an empty and with a full compiler cache; the page then has the seconds of its parts.
# --keep: the measurements are left in a folder, as COMMIT.txt, from which --from writes the page again.
set -euo pipefail
cd "$(dirname "$0")/.."
base=c3dc1df3 all=0 cold='' warm='' keep='' from=''
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=${2:?--base needs a commit}; shift ;;
    --all) all=1 ;;
    --cold | --warm) printf -v "${1#--}" %s "${2:?$1 needs what tools/test.sh printed}"; shift ;;
    --keep | --from) printf -v "${1#--}" %s "${2:?$1 needs a folder}"; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' tools/build_cost.sh; exit 0 ;;
    *) echo "build_cost: unknown option $1 (there are --base, --all, --keep, --from, --cold, --warm, --help)" >&2; exit 2 ;;
  esac
  shift
done
for log in "$cold" "$warm"; do
  [ -z "$log" ] || [ -r "$log" ] || { echo "build_cost: cannot read $log" >&2; exit 2; }
done
before=$(git rev-parse --short=8 --verify --quiet "$base^{commit}") ||
  { echo "build_cost: there is no commit $base here" >&2; exit 2; }
[ -n "$from" ] || [ -z "$(git status --porcelain)" ] || { echo "build_cost: the tree has changes: commit them first" >&2; exit 2; }
now=$(git rev-parse --short=8 HEAD)
if [ -n "$from" ]; then
  now=$(basename "$(ls -t "$from"/*.txt 2>/dev/null | grep -v "/$before.txt" | head -1)" .txt)
  [ -n "$now" ] && [ -r "$from/$before.txt" ] || { echo "build_cost: $from has no measurements of $before and another commit" >&2; exit 2; }
fi
scratch=$(mktemp -d)
clean_up() {
  for commit in "$before" "$now"; do git worktree remove --force "$scratch/$commit" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap clean_up EXIT
export CCACHE_DISABLE=1
TIMEFORMAT='%U %S'

# cpu COMMAND...: its CPU seconds; what it prints, only where it fails.
cpu() {
  local spent
  spent=$({ time "$@" >"$scratch/log" 2>&1 || { tail -20 "$scratch/log" >&3; exit 1; }; } 2>&1)
  awk '{ printf "%.1f", $1 + $2 }' <<<"${spent##*$'\n'}"
}
exec 3>&2
megabytes() { awk -v b="$(stat -c %s "$1")" 'BEGIN { printf "%.0f", b / 1e6 }'; }

# measure COMMIT: lines "name value" in $scratch/COMMIT.txt.
measure() {
  local tree=$scratch/$1 build=$scratch/$1/build/cost
  git worktree add --quiet --detach "$tree" "$1"
  compile() { c++ -std=c++20 -I "$build/include" -I "$build/generated" "$@"; }
  cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWARPTAPE_WITH_CUDA=OFF \
    -DWARPTAPE_WITH_SIMT=OFF -DWARPTAPE_UNITY=ON -DWARPTAPE_BUILD_TESTS=OFF >/dev/null
  {
    echo "quickstart $(cpu cmake --build "$build" --target wt --parallel "$(nproc)")"
    echo '#include <warptape/warptape.h>' >"$scratch/umbrella.cpp"
    echo "umbrella $(for _ in 1 2 3 4 5; do cpu compile -fsyntax-only "$scratch/umbrella.cpp"; echo; done | sort -n | sed -n 3p)"
    echo "program $(cpu compile -O2 -c "$tree/tools/examples/mlp.cpp" -o "$scratch/mlp.o")"
    cmake "$build" -DWARPTAPE_WITH_SIMT=ON >/dev/null
    echo "simt $(cpu cmake --build "$build" --target wt --parallel "$(nproc)")"
    echo "library $(megabytes "$build/libwarptape.a")"
    echo "wt $(megabytes "$build/wt")"
    if [ $all = 1 ]; then
      (cd "$tree" && cmake --preset ci >/dev/null)
      echo "ci $(cpu cmake --build "$tree/build/ci" --parallel "$(nproc)")"
    fi
  } >"$scratch/$1.txt"
}
if [ -n "$from" ]; then
  cp "$from/$before.txt" "$from/$now.txt" "$scratch"
else
  measure "$before"
  measure "$now"
  [ -z "$keep" ] || { mkdir -p "$keep" && cp "$scratch/$before.txt" "$scratch/$now.txt" "$keep"; }
fi

# parts LOG: "part|CPU seconds" of tools/test.sh's table of costs, but for those that took none.
parts() {
  awk '/^seconds  CPU seconds  slowness  part$/ { inside = 1; next } !inside { next } NF < 4 { exit }
    { cpu = $2; sub(/^ *[0-9]+ +[0-9.]+ +[0-9.]+  /, ""); if (cpu >= 1) printf "%s|%.0f\n", $0, cpu }' "$1"
}
row() {  # NAME GOAL WORDS WHY: what is in the way, where the ratio is above the goal
  join "$scratch/$before.txt" "$scratch/$now.txt" | awk -v name="$1" -v goal="$2" -v words="$3" -v why="$4" \
    '$1 == name { ratio = $3 / $2
       printf "| %s | %s | %s | %.2f | %s | %s |\n", words, $2, $3, ratio, goal, (goal != "" && ratio > goal + 0 ? why : "") }'
}
for commit in "$before" "$now"; do sort -o "$scratch/$commit.txt" "$scratch/$commit.txt"; done
{
  echo "# What a build costs"
  echo
  echo "Written by \`tools/build_cost.sh\` on $(date +%F), on $(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -1),"
  echo "$(nproc) processors, $(c++ --version | head -1); no compiler cache."
  echo
  echo "| | $before | $now | ratio | goal | in the way |"
  echo "|---|---:|---:|---:|---:|---|"
  row quickstart 0.5 "\`tools/quickstart.sh\`: wt for the cpu, CPU seconds" \
    "each contract's reference, its fast variant and its run are compiled for every dtype; the executor of simt and the host side of cuda are linked for the public functions that name them"
  row simt "" "the simt device besides, CPU seconds" ""
  row ci 0.6 "\`build/ci\`: everything that \`tools/test.sh\` compiles first, CPU seconds" \
    "what is left, by size: simt's kernels (plain, with AddressSanitizer, for the race detector), the test files, nvcc's kernels, the cpu's kernels twice"
  row umbrella 0.75 "parsing \`<warptape/warptape.h>\`, CPU seconds" "see tests/consumers/umbrella_cost.sh, which measures its memory"
  row program "" "\`tools/examples/mlp.cpp\` with -O2, CPU seconds" ""
  row library "" "\`libwarptape.a\` of a release build with simt, MB" ""
  row wt "" "\`wt\` of the same build, MB" ""
  if [ -n "$cold$warm" ]; then
    echo
    echo "CPU seconds of each part of \`tools/test.sh\`, with an empty and with a full cache of the compiler:"
    echo
    echo "| part | cold | warm |"
    echo "|---|---:|---:|"
    awk -F'|' '!($1 in seen) { seen[$1] = 1; order[++n] = $1 } { spent[column, $1] = $2 }
      END { for (i = 1; i <= n; ++i)
        printf "| %s | %s | %s |\n", order[i], spent["cold", order[i]], spent["warm", order[i]] }' \
      column=cold <([ -z "$cold" ] || parts "$cold") column=warm <([ -z "$warm" ] || parts "$warm")
    [ -z "$warm" ] || sed -nE 's/^test: ([0-9]+) s$/\nBy the clock \1 s warm, on these processors./p' "$warm"
    echo
    echo "The goals are 2400 s by the clock cold and 1200 s warm. In the way: the tests alone, of which the operator"
    echo "matrix (each operator, dtype and layout on the cpu, on simt, with AddressSanitizer, for the race detector and"
    echo "as PTX) and the recipes that train on every device are the largest; bench/results/test_cost.txt has the"
    echo "entries. Cold, what \`build/ci\` compiles comes on top."
  fi
} >docs/build_cost.md
cat docs/build_cost.md
