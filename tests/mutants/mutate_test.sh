#!/usr/bin/env bash
# tools/mutate.sh over a project of two files: which faults it plants, what it says of them, that it
# tells killed ones from survivors, plants them again, and leaves nothing when it is stopped.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
for program in python3 git; do
  command -v $program >/dev/null || { echo "SKIPPED: $program is not installed"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch/tmp
mkdir -p "$TMPDIR" "$scratch/tiny"/{core,tools,autograd,tests/{core,mutants}}
bad=0
fail() { echo "FAILED $*"; bad=1; }

# The faults of this tree: the same for the same seed, of every class.
list() { "$root/tools/mutate.sh" --list --count 40 --seed "$1"; }
list 1 >"$scratch/one"
list 1 >"$scratch/two"
cmp -s "$scratch/two" "$scratch/one" || fail "one seed, two lists"
list 2 >"$scratch/two"
cmp -s "$scratch/two" "$scratch/one" && fail "two seeds, one list"
for kind in index formula saved version bound cast comparison sign arguments return; do
  grep -q ":[0-9]* $kind: " "$scratch/one" || fail "no fault of the class $kind among 40"
done

cd "$scratch/tiny" || exit 1
cp -r "$root/tools/mutate.sh" "$root/tools/mutants" tools/
: >tools/op_facts.inc
: >tests/core/shape_test.cpp
printf '%s\t%s\t%s\t%s\n' core/shape.cpp 'return w + spare;' 'return w - spare;' "a test's word" \
  >tests/mutants/equivalent.txt
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(tiny CXX)
macro(wt_tests)
endmacro()
wt_tests()
add_executable(wt_tests core/shape.cpp main.cpp)
END
cat >core/shape.cpp <<'END'
int area(int w, int h) {
  return w * h;
}
int forever(int w) {
  int n = 0;
  for (unsigned i = 1; i != unsigned(w); i += 1)
    n = n + 1;
  return n;
}
int unseen(int w, int h) {
  return w * h;
}
int equal(int w, int spare) {
  return w + spare;
}
END
cat >main.cpp <<'END'
#include <cstdio>
int area(int, int), forever(int), equal(int, int);
int main() {
  const char* line = "-------------------------------------------------------------------------------";
  if (area(3, 3) == 9 && forever(3) == 2 && equal(1, 0) == 1) {
    std::puts("All tests passed (1 assertion in 1 test case)");
    return 0;
  }
  std::printf("%s\narea of a square\n%s\ntest cases: 1 | 1 failed\n", line, line);
  return 1;
}
END
echo build >.gitignore
git init -q . && git add -A && git -c user.name=x -c user.email=x@x.invalid commit -qm tiny
out=$scratch/out result=bench/results/mutants.txt
tools/mutate.sh --count 40 --jobs 2 --output $result >"$out" 2>&1
rc=$?
[ $rc = 1 ] || fail "exit code $rc where most faults survive"
has() { grep -qF -- "$1" "$2" || fail "not in $2: $1"; }
has 'return w * h;  ->  return w + h;' "$out"
has 'killed by file:shape_test: area of a square' "$out"
has 'SURVIVED' "$out"
has "equivalent: a test's word" "$out"
has $'\tkilled\tformula\tcore/shape.cpp\t2\t' $result
has $'\tsurvived\tformula\tcore/shape.cpp\t11\t' $result
has "$(git rev-parse HEAD)" $result
git diff --quiet || fail "the sources were changed"

# Updated: a killed fault of a file that has not changed is kept, a survivor is tried again.
commit() { git add -u && git -c user.name=x -c user.email=x@x.invalid commit -qm "$1"; }
cp main.cpp "$scratch/main.cpp" && cp $result "$scratch/first.txt"
sed -i 's/int area(int, int), /&unseen(int, int), /; s/area(3, 3)/unseen(3, 3)/' main.cpp
commit "another function is tested"
tools/mutate.sh --count 40 --jobs 2 --output $result --update $result >"$out" 2>&1
has $'\tkilled\tformula\tcore/shape.cpp\t2\t' $result
has $'\tkilled\tformula\tcore/shape.cpp\t11\t' $result
echo "// changed" >>core/shape.cpp
commit "the source has changed"
tools/mutate.sh --count 40 --jobs 2 --output $result --update $result >"$out" 2>&1
has $'\tsurvived\tformula\tcore/shape.cpp\t2\t' $result
git reset -q --hard HEAD~2
cp "$scratch/first.txt" $result

# Over a tree that is built: lines have moved since.
cmake -S . -B build/here -G Ninja >/dev/null && cmake --build build/here >/dev/null || fail "no build"
sed -i '1i // moved' core/shape.cpp && cmake --build build/here >/dev/null
tools/mutate.sh --again 1 --build build/here >"$out" 2>&1 || fail "a killed fault survives"
has 'killed again (file:shape_test: area of a square)' "$out"
has '0 commits ago' "$out"
# The case that killed it no longer does, another one of its file does.
cp main.cpp "$scratch/main.cpp"
sed -i 's/int main() {/int main(int argc, char** argv) {/
  s/  if (area/  for (int i = 1; i < argc; ++i)\n    if (std::strstr(argv[i], "area of a square")) std::exit(std::puts("All tests passed (1)") < 0);\n&/
  s/#include <cstdio>/&\n#include <cstdlib>\n#include <cstring>/
  s/narea of a square/narea of a wall/' main.cpp
cmake --build build/here >/dev/null || fail "no build"
tools/mutate.sh --again 1 --build build/here >"$out" 2>&1 || fail "only the old case is asked"
has 'killed again (file:shape_test: area of a wall)' "$out"
cp "$scratch/main.cpp" main.cpp
sed -i 's/area(3, 3) == 9/area(3, 3) > 0/; s/forever(3) == 2/forever(3)/' main.cpp
cmake --build build/here >/dev/null
tools/mutate.sh --again 1 --build build/here >"$out" 2>&1 && fail "a weak test is not noticed"
has 'SURVIVED' "$out"

sed -i "s/area(3, 3) > 0/true/; s/All tests passed.*case)/No tests ran/" main.cpp
cmake --build build/here >/dev/null
tools/mutate.sh --again 1 --build build/here >"$out" 2>&1 || fail "a test of another name fails"
has 'its test has another name now' "$out"

# Stopped: no folder, no process.
setsid tools/mutate.sh --count 40 --jobs 1 >"$out" 2>&1 &
pid=$!
for _ in $(seq 100); do
  ls "$TMPDIR"/wt-mutants-* >/dev/null 2>&1 && break
  sleep 0.1
done
kill -TERM $pid
wait $pid
rc=$?
[ $rc = 130 ] || fail "exit code $rc of a run that was stopped"
ls "$TMPDIR"/wt-mutants-* >/dev/null 2>&1 && fail "a stopped run leaves its folder"

# Stopped in the moment in which it starts a program.
timeout -s KILL 60 python3 - "$root/tools/mutants" "$scratch/tiny" >"$out" 2>&1 <<'END'
import os, pathlib, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
import main
main.ROOT = pathlib.Path(sys.argv[2])
start = subprocess.Popen
def stopped_while_starting(command, *args, **options):
    if options.get("start_new_session"):
        os.kill(os.getpid(), signal.SIGTERM)
    return start(command, *args, **options)
subprocess.Popen = stopped_while_starting
sys.argv[1:] = ["--count", "4"]
sys.exit(main.main())
END
rc=$?
[ $rc = 130 ] || fail "exit code $rc of a run that was stopped while it started a program"
exit $bad
