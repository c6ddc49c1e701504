#!/usr/bin/env bash
# What a run of tools/test.sh cost: its parts, the twenty dearest tests, and its CPU seconds beside the
# figure that is committed; exit code 1 where they are more than 10 % above it, 77 where there is none.
#
#   tools/test_cost.sh [--update] PARTS LOG MISSES HITS
#   tools/test_cost.sh --slow          a regular expression of the plain tests that take over 5 s, for
#                                      ctest -E
#
# PARTS has a line "seconds, CPU seconds, slowness, name" for each part. Slowness (cmake/slowness.sh) is that
# of the machine just then, by which its CPU seconds are divided, so that a slow machine fails
# nothing. LOG is ctest's. MISSES and HITS are the compiler cache's: a run in which hardly anything was
# compiled is held against the figure "warm", any other against "cold". --update writes the figure
# anew: a change that makes the tests dearer brings it along.
set -euo pipefail
figures=${WARPTAPE_TEST_COST:-$(dirname "$0")/../bench/results/test_cost.txt}
update=0
case ${1:-} in
  --slow)
    awk '$1 == "entry" && $3 !~ /[.](asan|race|gpu|ptx)([.]|$)/ {
      gsub(/[.+]/, "[&]", $3); printf "%s^%s$", n++ ? "|" : "", $3 }' "$figures"
    exit ;;
  --update) update=1; shift ;;
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
esac
[ $# = 4 ] || { echo "test_cost: give PARTS, LOG, MISSES and HITS, or --slow" >&2; exit 2; }
parts=$1 log=$2 misses=$3 hits=$4

echo "seconds  CPU seconds  slowness  part"
awk '{ name = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", name); printf "%7d  %11.1f  %8.2f  %s\n", $1, $2, $3, name
    seconds += $1; cpu += $2; even += $2 / $3 }
  END { printf "%7d  %11.1f  %8.2f  in all\n", seconds, cpu, even ? cpu / even : 1 }' "$parts"
# "seconds name" of each entry; its output may have a line like ctest's own, its name has no blanks.
entries=$(awk '/^[0-9]+\/[0-9]+ Test: / && NF == 3 { name = $3 }
  /^Test time = +[0-9.]+ sec$/ && name != "" { printf "%.1f %s\n", $4, name; name = "" }' "$log" | sort -rn)
echo
echo "seconds  the twenty dearest tests"
head -20 <<<"$entries" | awk 'NF { printf "%7.1f  %s\n", $1, $2 }'
echo

kind=cold
[ $((misses * 20)) -gt $((misses + hits)) ] || kind=warm
cost=$(awk '{ even += $2 / $3 } END { printf "%.0f", even }' "$parts")
figure=$(awk -v kind=$kind '$1 == kind { print $2 }' "$figures" 2>/dev/null || true)
what="test_cost: $cost CPU seconds on a machine that is not slow"
what+=", the compiler's cache $kind ($misses of $((misses + hits)) compiled)"
if [ $update = 1 ]; then
  other=$(grep -vE "^($kind|entry) " "$figures" 2>/dev/null || true)
  {
    [ -z "$other" ] || echo "$other"
    echo "$kind $cost"
    awk '$1 > 5 { print "entry", $1, $2 }' <<<"$entries"
  } >"$figures.new"
  mv "$figures.new" "$figures"
  echo "$what: written to ${figures##*/}"
elif [ -z "$figure" ]; then
  echo "$what: there is no figure to hold it against (tools/test.sh --update-cost)"
  exit 77
elif [ $((cost * 10)) -gt $((figure * 11)) ]; then
  echo "$what, more than 10 % above $figure: make it cheaper, or bring the new figure along" \
    "(tools/test.sh --update-cost)"
  exit 1
else
  echo "$what; $figure is the figure"
fi
