#!/usr/bin/env bash
# tools/test_cost.sh on made logs: what it prints of a run, when a run is too dear, what --update writes
# and which tests --slow names; and what tools/test.sh --quick builds and runs, with stand-ins.
set -u
root=$(cd "${0%/*}/../.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
has() { grep -qE -- "$1" out || fail "no '$1' in: $(cat out)"; }
export WARPTAPE_TEST_COST=$here/figures
# cost EXIT ARGS...
cost() {
  local wanted=$1 rc
  shift
  "$root/tools/test_cost.sh" "$@" >out 2>&1
  rc=$?
  [ $rc = "$wanted" ] || fail "$*: exit code $rc, wanted $wanted: $(cat out)"
}
printf '%s\n' '10 20.0 1.00 build' '50 180.0 2.00 tests of all' >parts  # 110 CPU seconds
for ((i = 1; i <= 25; ++i)); do
  printf '%s\n' "$i/25 Test: a/t$i.plain" 'Command: "x"' 'Test time =  99.00 sec, says a test' \
    "Test time =   $i.25 sec"
done >log
printf '%s\n' '26/27 Test: a/t.asan.1of2' 'Test time = 50.00 sec' '27/27 Test: b+c/last' 'Test time = 6.00 sec' >>log

cost 77 parts log 0 100
has '^ +60 +200[.]0 +1[.]82  in all$'
has '^ +50 +180[.]0 +2[.]00  tests of all$'
has '^ +50[.]0  a/t[.]asan[.]1of2$'
has 'no figure to hold it against'
[ "$(grep -cE '^ +[0-9.]+  (a/t|b)' out)" = 20 ] || fail "not the twenty dearest: $(cat out)"
printf '%s\n' '# words' 'warm 100' 'cold 500' 'entry 9.0 gone' >figures
cost 0 parts log 4 96
has '110 CPU seconds .* warm .*; 100 is the figure'
cost 0 parts log 6 94  # partly compiled: held against what all of it may cost
has 'cold .*; 500 is the figure'
sed -i 's/^50 180.0/50 182.1/' parts
cost 1 parts log 0 100
has 'more than 10 % above 100: .*--update-cost'
cost 0 --update parts log 0 100
[ "$(head -5 figures)" = "# words
cold 500
warm 111
entry 50.0 a/t.asan.1of2
entry 25.2 a/t25.plain" ] || fail "updated: $(cat figures)"
grep -qE 'gone| a/t4' figures && fail "updated: $(cat figures)"
cost 0 parts log 0 100
cost 0 --slow
for name in a/t25.plain b+c/last; do grep -qE -f out <<<"$name" || fail "not slow: $name"; done
for name in a/t4.plain a/t.asan.1of2 aa/t25.plain a/t25_plain; do grep -qE -f out <<<"$name" && fail "slow: $name"; done
cost 2 parts
rm figures
cost 0 --update parts log 100 0
[ "$(head -1 figures)" = "cold 111" ] || fail "the first figure: $(cat figures)"

# --- tools/test.sh --quick ---
mkdir -p tree/tools tree/build/ci bin
cp "$root"/tools/{checks,test,test_cost}.sh tree/tools/
printf '#!/bin/sh\nexit 0\n' >bin/ccache  # the machine's own counts other builds
printf '#!/bin/sh\n' | tee tree/tools/format.sh >bin/g++
printf '#!/bin/sh\n[ "$1" = --version ] && echo "cmake version 3.25.1"; echo "cmake $*"\n' >bin/cmake
cat >bin/ctest <<'C'
#!/bin/sh
printf ' %s' ctest "$@"
mkdir -p build/ci/Testing/Temporary
printf '%s\n' "1/1 Test: a/b.plain" "cases: 3 passed, 0 failed, 1 skipped" "Test time =   7.5 sec" \
  >build/ci/Testing/Temporary/LastTest.log
C
chmod +x bin/* tree/tools/*
CXX=cc-of-nobody PATH=$here/bin:$PATH tree/tools/test.sh --quick >out 2>&1 || fail "--quick: $(cat out)"
has '^cmake --preset ci$'
has '^cmake --build build/ci .* --target wt wt_tests$'
has '^ ctest .* -L [^ ]*plain.* -LE .*examples.* -E .*\^a/t25\[[.]\]plain\$'
[ "$(tail -1 out)" = "6 passed, 0 failed, 1 skipped" ] || fail "--quick: $(cat out)"
[ "$(grep -c '^cmake --build' out)" = 1 ] || fail "--quick builds more: $(cat out)"

# --- a full run ends with what it cost ---
grep -oE '^check .* ((tools|cmake|tests)/[a-z_/]+[.]sh)' tree/tools/test.sh | grep -oE '[^ ]+[.]sh$' | sort -u >scripts
for script in $(<scripts) cmake/slowness.sh; do
  [ -e "tree/$script" ] && continue
  mkdir -p "tree/${script%/*}"
  printf '#!/bin/sh\n' >"tree/$script"
  chmod +x "tree/$script"
done
full() { CXX=cc-of-nobody PATH=$here/bin:$PATH tree/tools/test.sh --no-setup "$@" >out 2>&1; }
full || fail "a full run: $(cat out)"
has '^ +[0-9]+ +[0-9.]+ +1[.]00  build without CUDA$'
has '^ +7[.]5  a/b[.]plain$'
has '^== cost of all this: '
full --only core || fail "--only: $(cat out)"
grep -q 'cost of all this' out && fail "--only is held against the cost of all"
printf '%s\n' 'warm 0' 'cold 0' >figures
# A second of the processor on any machine: a loop of so many rounds was half of one on a fast one.
printf '#!/bin/sh\n(ulimit -c 0; ulimit -t 1; while :; do :; done)\nexit 0\n' >tree/tools/tsan.sh
full && fail "a run that is too dear passes: $(cat out)"
has '^failed: cost of all this$'
exit $bad
