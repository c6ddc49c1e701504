#!/usr/bin/env bash
# wt bench compare: files with planted differences, files that cannot be compared, two variants. What
# is claimed of which noise: comparison_test.cpp. Usage: wt_bench_compare_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
expect() {  # CODE TEXT ARGUMENTS...
  local want=$1 text=$2 out code=0
  shift 2
  out=$("$wt" bench compare "$@" 2>&1) || code=$?
  [ "$code" -eq "$want" ] || fail "compare $*: exit code $code, not $want: $out"
  grep -qE -- "$text" <<<"$out" || fail "compare $*: no \"$text\" in: $out"
}
runs() {  # NAME PERCENT: five runs of about 1000 us, so much slower
  local us
  for us in 1000 1004 998 1001 997; do
    printf '{"bench":"%s","impl":"v","shape":"9","dtype":"f32","median_us":%s,"machine":"M"}\n' \
      "$1" "$(awk "BEGIN {print $us * (1 + $2 / 100)}")"
  done
}

{ runs one 0; runs two 0; runs three 0; } >a
{ runs one 3; runs two 0.3; runs three -3; runs four 0; } >b
expect 0 '^one 9 f32 +5 +1\.0300 .* B is slower' a b
expect 0 '^two 9 f32 +5 +1\.0030 .* no difference' a b
expect 0 '^three 9 f32 +5 +0\.9700 .* B is faster' a b
expect 0 '1 row is in one file only, the first: four 9 f32' a b
expect 0 '^one 9 f32 +5 .* no difference' --margin 0.05 a b
expect 0 '"verdict":"B is slower"' --json a b
head -n 2 a >two
expect 0 'too few runs' two two
sed 's/"M"/"N"/' b >elsewhere
expect 0 'different machines: M; N' a elsewhere

expect 3 'missing.json' missing.json b
echo '{"bench":"x"' >torn
expect 3 'torn' torn b
echo '{"bench":"x","impl":"modelled","median_us":null}' >modelled
expect 3 'no line has median_us' modelled b
runs five 0 >other
expect 3 'no row in common' a other
expect 2 'must be' a b --margin -1
expect 2 'median,min' a b --of mean
expect 2 'A: is required|A is required' --json
expect 2 'requires --kernel|--kernel' a b --rounds 3

# Two variants: any verdict is right.
expect 0 '^add .* f32 cpu +5 ' reference vectorized --kernel add --scale small --rounds 5
expect 2 "no variant 'vectorised'.*did you mean 'vectorized'" reference vectorised --kernel add
expect 2 'wt bench counters' naive naive --kernel add --device simt
expect 2 "softmax_forward" naive naive --kernel softmax_forwrd
exit $bad
