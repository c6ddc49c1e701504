#!/usr/bin/env bash
# tools/attack.sh with stand-ins for all that it calls: what a part says becomes a row, a part that
# fails fails the whole, and of a page the table alone is replaced.
set -u
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
mkdir -p "$here/tools" "$here/tests/tools/wt" "$here/build"
cp "$tools/attack.sh" "$here/tools/"
script() { printf '#!/usr/bin/env bash\n%s\n' "$2" >"$here/$1"; chmod +x "$here/$1"; }
script tools/fuzz.sh 'case $* in
  *--operators*) echo "passed 30 calls, 1 s: operators" ;;
  *) echo "passed 20 files, 1 s: npy"; echo "passed 22 files, 1 s: png" ;;
esac'
script tools/kill_harness.sh 'echo "passed memory, 1 s: 9, of which 4 left a temporary file; 0 unreadable"
echo "passed disk (ext2/ext3), 1 s: 8, of which 4 left a temporary file; 0 unreadable"'
script tests/tools/wt/wt_faults_test.sh 'exit 0'
script build/wt 'exit 0'
script build/wt_tests 'echo "All tests passed (70 assertions in 3 test cases)"'
attack() { "$here/tools/attack.sh" --build build "$@" >"$here/out" 2>&1; }
has() { grep -qF -- "$1" "$2" || fail "no '$1' in: $(cat "$2")"; }

attack || fail "exit code $?: $(cat "$here/out")"
has '| files | 42 damaged files in 2 kinds, seed 1 | passed |' "$here/out"
has '| operators | 30 calls of operators in 1 kinds, seed 1 | passed |' "$here/out"
has '| kills | 9 kills in memory, 4 of them inside a write; 8 kills in disk, 4 of them inside a write | passed |' "$here/out"
has '| faults | 3 cases, 70 checks: every call in turn | passed |' "$here/out"
has '| runs | 4 rounds of' "$here/out"
has '| threads | - | skipped | - |' "$here/out"
has 'attack: 5 passed, 0 failed, 1 skipped' "$here/out"

script tools/tsan.sh 'exit 0'
printf 'before\n<!-- attack: x -->\nold\n<!-- end of attack -->\nafter\n' >"$here/page.md"
attack --long --seed 7 --output page.md files threads || fail "two parts: $(cat "$here/out")"
has 'attack: 2 passed, 0 failed, 0 skipped' "$here/out"
has 'seed 7' "$here/page.md"
for line in before '<!-- attack: x -->' '<!-- end of attack -->' after '|---|---|---|---|'; do
  [ "$(grep -cFx -- "$line" "$here/page.md")" -eq 1 ] || fail "'$line' in: $(cat "$here/page.md")"
done
grep -q old "$here/page.md" && fail "the old table is still there"

broken() { # NAME OF_PART SCRIPT TEXT: a part that fails is a failure of all, and is shown
  local before
  before=$(cat "$here/$2")
  script "$2" "$3"
  attack --long && fail "$1 fails and attack.sh does not"
  has "| $1 | - | FAILED |" "$here/out"
  has "attack: 5 passed, 1 failed, 0 skipped" "$here/out"
  has "what it said" "$here/out"
  printf '%s\n' "$before" >"$here/$2"
}
broken kills tools/kill_harness.sh 'echo what it said; exit 1'
broken faults build/wt_tests 'echo what it said; exit 3'
broken faults build/wt_tests 'echo what it said; echo "No tests ran"'
broken runs tests/tools/wt/wt_faults_test.sh 'echo what it said; exit 1'
broken threads tools/tsan.sh 'echo what it said; exit 66'
attack nothing
[ $? -eq 2 ] || fail "an unknown part"
exit $bad
