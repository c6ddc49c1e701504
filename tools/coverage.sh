#!/usr/bin/env bash
# Which lines of core, autograd and the cpu kernels the plain tests run: a build of its own with gcov's
# counters, the tests once, a table by folder. Exit code 1 below 90 % of the lines. Needs gcovr
# (apt-get install gcovr, or tools/setup.sh --nightly).
#
#   tools/coverage.sh [--jobs N] [--build DIR] [--output FILE]
#       builds in DIR (build/coverage); FILE gets the result with the lines that never ran.
#       tools/nightly.sh writes bench/results/coverage.txt.
#   tools/coverage.sh --show        prints the committed result and its age
set -euo pipefail
cd "$(dirname "$0")/.."
least=90
build=build/coverage output="" jobs=$(nproc) committed=bench/results/coverage.txt
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    --output) output=${2:?--output needs a file}; shift ;;
    --show)
      if [ ! -f $committed ]; then
        echo "no $committed yet: tools/nightly.sh coverage writes it"
        exit 77
      fi
      commit=$(awk '$1 == "commit" { print $2 }' $committed)
      sed -n '/^#/d;/^$/q;p' $committed
      echo "$(git rev-list --count "$commit..HEAD" 2>/dev/null || echo "an unknown number of") commits ago"
      exit 0 ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "coverage: unknown option $1 (there are --jobs N, --build DIR, --output FILE, --show)" >&2
      exit 2 ;;
  esac
  shift
done
if ! command -v gcovr >/dev/null; then
  echo "SKIPPED: gcovr is not installed (tools/setup.sh --nightly)"
  exit 77
fi

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWARPTAPE_FLAVOURS=coverage \
  -DWARPTAPE_WERROR=OFF -DWARPTAPE_WITH_CUDA=OFF >/dev/null  # counters make the compiler warn of other things
cmake --build "$build" --parallel "$jobs" --target wt_tests >"$build/build.log" || { tail -30 "$build/build.log"; exit 1; }
find "$build" -name '*.gcda' -delete  # those of an earlier run
# Counting makes the tests slower, not wrong: one that fails has run its lines too.
ctest --test-dir "$build" -R "[.]plain" --parallel "$jobs" >"$build/tests.log" ||
  grep -E 'Failed|Timeout' "$build/tests.log"

# What needs a driver runs on the GPU machine only.
timeout 1800 gcovr --root . --object-directory "$build" -j "$jobs" --gcov-ignore-parse-errors \
  --filter 'core/' --filter 'autograd/' --filter 'kernels/((?!cuda|simt|device)[a-z]+/)?[^/]*[.](cpp|h|inc)$' \
  --csv "$build/coverage.csv" --txt "$build/coverage.log" "$build" 2>"$build/gcovr.log" ||
  { tail -20 "$build/gcovr.log"; exit 1; }
# Headers are named by the include root, a link to the sources.
sed -i 's|^"\{0,1\}[^ ,]*/include/warptape/||' "$build/coverage.csv" "$build/coverage.log"
{
  echo "# Written by tools/coverage.sh: lines that the plain tests run (gcovr), cpu code only."
  echo "commit $(git describe --always --abbrev=40 --dirty --exclude='*')"
  echo "date $(date +%F)"
  tail -n +2 "$build/coverage.csv" | tr -d '\r"' | awk -F, '
    { folder = $1; sub(/\/.*/, "", folder); lines[folder] += $2; ran[folder] += $3 }
    END {
      printf "%-10s %8s %8s %8s\n", "folder", "lines", "run", "percent"
      n = split("core kernels autograd", names, " ")
      for (i = 1; i <= n; ++i) {
        f = names[i]
        all += lines[f]; done += ran[f]
        printf "%-10s %8d %8d %7.1f%%\n", f, lines[f], ran[f], lines[f] ? 100 * ran[f] / lines[f] : 0
      }
      printf "%-10s %8d %8d %7.1f%%\n", "total", all, done, all ? 100 * done / all : 0
    }'
  echo
  echo "# File, lines, run, percent, lines that never ran; files with all of them are left out."
  # A long file name stands on a line of its own.
  awk '/^(core|autograd|kernels)\// { if (NF == 1) { name = $1; next } if ($4 != "100%") print; next }
    name != "" { if ($3 != "100%") print name, $0; name = "" }' "$build/coverage.log" | tr -s ' '
} >"$build/coverage.txt"
sed -n '/^#/d;/^$/q;p' "$build/coverage.txt"
[ -z "$output" ] || cp "$build/coverage.txt" "$output"
percent=$(awk '$1 == "total" { print $4 + 0 }' "$build/coverage.txt")
if awk "BEGIN { exit !($percent < $least) }"; then
  echo "FAILED: $percent % of the lines ran, $least % are wanted"
  exit 1
fi
