#!/usr/bin/env bash
# wt lab: what it hands out and overwrites, files and folders as people have them, reports, tables,
# packs, interruptions. What labs accept and reject is in tests/labs.
#
#   wt_lab_test.sh WT
set -euo pipefail
wt=$(realpath "$1")
root=$(cd "$(dirname "$0")/../../../.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
mkdir "$here/tmp" "$here/work"
export TMPDIR=$here/tmp USER=nobody
unset WT_LAB_DIR
cd "$here/work"
fail() {
  echo "FAILED: $*"
  [ ! -s "$here/err" ] || cat "$here/err"
  [ ! -s "$here/out" ] || cat "$here/out"
  exit 1
}
expect() {  # CODE TEXT ARGUMENTS...: `wt lab` ends with this code, says this, and leaves nothing in TMPDIR
  local want=$1 text=$2 code=0
  shift 2
  "$wt" lab "$@" >"$here/out" 2>"$here/err" || code=$?
  [ "$code" -eq "$want" ] || fail "wt lab $*: exit code $code, not $want"
  grep -qF -- "$text" "$here/out" "$here/err" || fail "wt lab $*: no \"$text\""
  [ -z "$(ls -A "$here/tmp")" ] || fail "wt lab $*: $(ls "$here/tmp") is left"
}
host=$root/labs/10_tape
cp "$host/solution.cpp" "$here/tape.cpp"

# --- which labs there are ---
expect 0 "10  tape" list
expect 0 '"number":4,"name":"reduction"' list --json
expect 2 "did you mean 'tape'" start tap
expect 2 "no lab is called '99'" start 99
WT_LAB_DIR=$here/nowhere expect 2 "there are no labs in" list

# --- a folder is made once ---
expect 0 "lab10_tape" start 10
# shellcheck disable=SC2012  # names of ours
[ "$(ls -A lab10_tape | tr '\n' ' ')" = ".wt_lab.json page.md tape.cpp tape.h " ] || fail "$(ls -A lab10_tape)"
cmp lab10_tape/tape.cpp "$host/stub.cpp"
echo "// mine" >>lab10_tape/tape.cpp
cp -r lab10_tape "$here/before"
expect 2 "is there already, with .wt_lab.json, page.md, tape.cpp, tape.h" start tape
diff -r lab10_tape "$here/before" || fail "a second start changed the folder"
expect 2 "is the folder of 10_tape" start 4 --folder lab10_tape --again
rm lab10_tape/page.md
sed -i 's|"labs":"[^"]*"|"labs":"/nowhere/labs"|' lab10_tape/.wt_lab.json
expect 11 "page.md is not there" check lab10_tape
grep -q "was started from are not in /nowhere/labs any more" "$here/out" || fail "$(cat "$here/out")"
cp "$here/before/.wt_lab.json" lab10_tape
expect 0 "restored page.md" start 10 --again
expect 0 "nothing was missing" start 10 --again
grep -q "// mine" lab10_tape/tape.cpp || fail "--again overwrote tape.cpp"
expect 0 "$here/work/a b/lab #1" start 10 --folder "$here/work/a b/lab #1/"
touch "$here/work/file"
expect 2 "is there already" start 10 --folder file
expect 8 "can be made" start 10 --folder /proc/lab10
expect 2 "--folder names" start 10

# --- the stub fails, and gets hints one after the other ---
expect 2 "has no lab in it" check .
expect 11 "NOT PASSED" check lab10_tape
said=("begin with ones" "Keep a map")
expect 0 "hint 1 of 3" hint lab10_tape
expect 0 "${said[0]}" hint lab10_tape
expect 0 "${said[1]}" hint lab10_tape
expect 0 "${said[1]}" hint lab10_tape  # there is no fourth
expect 0 '"hint":"begin"' hint lab10_tape --json
sed -i 's/"hint":"begin"/"hint":""/' lab10_tape/.wt_lab.json  # as of a row that has no hint
expect 0 "what failed last: a chain: d tanh(3 x) / dx: " hint lab10_tape
expect 0 "a question, then where to look" hint --help

# --- files as editors write them ---
odd="$here/work/a b/lab #1"
{
  printf '\xef\xbb\xbf'
  sed 's/$/\r/' "$here/tape.cpp"
} >"$odd/tape.cpp"
sed -i 's/$/\r/' "$odd/tape.h"
expect 0 "PASSED: 100 of 100" check "$odd"
expect 0 '"passed":true,"points":100' check "$odd" --json --seed 7
expect 0 "nothing failed last" hint "$odd"
cp "$here/tape.cpp" lab10_tape/tape.cpp
echo "int x = ;" >>lab10_tape/tape.cpp
line=$(wc -l <lab10_tape/tape.cpp)
expect 11 "tape.cpp:$line: error: expected primary-expression" check lab10_tape
cp "$here/tape.cpp" lab10_tape/tape.cpp
echo "// another interface" >>lab10_tape/tape.h
expect 11 "tape.h differs from what was handed out: remove it, and \`wt lab start 10 --again --folder lab10_tape\` restores it" \
  check lab10_tape
rm lab10_tape/tape.h
rm lab10_tape/tape.cpp
expect 3 "restores the stub" check lab10_tape
{
  printf '#include <cstdio>\nstatic const int said = std::printf("before main, and no end of a line");\n'
  cat "$here/tape.cpp"
} >lab10_tape/tape.cpp
expect 0 "PASSED: 100 of 100" check lab10_tape/tape.cpp  # without the header: the lab's own is taken
expect 3 "there is no such file" check lab11
expect 2 "which lab is" check "$host/solution.cpp"

# --- what does not end, or ends too early, costs its cases alone ---
ends() {  # "HINTS" LINES [SECONDS]: tape.cpp, whose backward does this first. What else is right may be enough to pass
  local code=0 hint
  sed "s|^void backward(const Var& root) {|&\n  $2|" "$here/tape.cpp" >lab10_tape/tape.cpp
  "$wt" lab check lab10_tape --json --timeout "${3:-20}" >"$here/out" 2>"$here/err" || code=$?
  [ $code -eq 0 ] || [ $code -eq 11 ] || fail "$1: exit code $code"
  for hint in $1; do
    grep -qF "\"hint_id\":\"$hint\"" "$here/out" || fail "$1: no case has the hint $hint"
  done
  [ -z "$(ls -A "$here/tmp")" ] || fail "$1: $(ls "$here/tmp") is left"
  grep -q '"passed":true' "$here/out" || fail "$1: it cost all cases"
}
first='if (root->op == "tanh")'
ends hang "$first for (volatile int turn = 1; turn;) {}" 2
ends "crash printed" "$first __builtin_trap(); if (root->op == \"mul\") for (;;) puts(\"words\");"
ends exit "$first _Exit(0);"
ends "threw twice" "$first throw std::runtime_error(\"words of mine\"); if (root->op == \"mul\") root->pull = \
  [p = root->pull](const wt::Tensor\& g) { return p(g * (1 + 1e-9)); };"
! grep -qE 'is ([0-9.]+), not \1"' "$here/out" || fail "two numbers differ and look the same"
ends memory "$first for (static std::vector<std::string> all;;) all.emplace_back(1 << 20, 'x');"
ends sandbox "$first fclose(fopen(\"/tmp/wt_lab_written\", \"w\"));"
# A line that says it passed is not the case's own.
ends exit "$first { puts(\"\"); puts(R\"({\"lab_case\":0,\"passed\":true,\"key\":\"\"})\"); fflush(stdout); _Exit(0); }"
cp "$here/tape.cpp" lab10_tape/tape.cpp

# --- no compiler, no room ---
CXX=$here/no/c++ expect 2 "needs a C++20 compiler" check lab10_tape
TMPDIR=$here/nowhere expect 8 "TMPDIR" check lab10_tape
(
  ulimit -f 16
  expect 8 "no room" check lab10_tape
)
for kib in 8 200; do
  code=0
  mkdir -p "$here/full"
  # shellcheck disable=SC2016
  unshare -rm bash -c 'mount -t tmpfs -o "size=$1k" tmpfs "$2/full" && touch "$2/mounted" &&
    head -c 4096 /dev/zero >"$2/full/half" && { "$3" lab start 10 --folder "$2/full/lab"; code=$?
    ls -A "$2/full" >"$2/left"; exit $code; }' - $kib "$here" "$wt" >"$here/out" 2>"$here/err" || code=$?
  [ -e "$here/mounted" ] || { echo "no file system can be mounted: not tried full" && break; }
  if [ $kib = 8 ]; then
    [ "$code" -eq 8 ] || fail "start on a full disk: exit code $code"
    [ "$(cat "$here/left")" = half ] || fail "start on a full disk left $(cat "$here/left")"
  else
    [ "$code" -eq 0 ] || fail "start with room enough: exit code $code"
  fi
done

# --- interrupted: nothing half ---
python3 - "$wt" "$here/tmp" <<'END' || fail "interrupted"
import os, signal, subprocess, sys, time
wt, tmp = sys.argv[1:]
for number, code in (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129):
    # Whoever started the tests may want signals ignored (nohup, a shell's background job).
    process = subprocess.Popen([wt, "lab", "check", "lab10_tape"], stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    while not os.listdir(tmp) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait() == code, (number, process.returncode)
    assert not os.listdir(tmp), os.listdir(tmp)
END
cmp lab10_tape/tape.cpp "$here/tape.cpp" || fail "interrupted: the student's file is another one"

# --- packs ---
expect 2 "no lab is called 'tap'" pack --out class --labs 4,tap
[ ! -e class ] || fail "a pack that failed is there"
expect 0 "2 labs for class" pack --out class/ --labs 4,tape,10 --seed 5
expect 2 "is there already" pack --out class
[ "$(find class -type f | sort | tr '\n' ' ')" = "class/labs/04_reduction/lab.json class/labs/04_reduction/page.md \
class/labs/04_reduction/stub.cu class/labs/10_tape/lab.json class/labs/10_tape/libcheck.a class/labs/10_tape/page.md \
class/labs/10_tape/stub.cpp class/labs/10_tape/tape.h class/labs/README.txt class/labs/pack.json class/teacher.json " ] ||
  fail "$(find class -type f | sort)"
grep -q '"seed":5' class/teacher.json || fail "$(cat class/teacher.json)"
! grep -rq '"seed"' class/labs || fail "the seed is handed out"
[ "$(stat -c %a class/teacher.json)" = 600 ] || fail "everybody may read the teacher's file"
WT_LAB_DIR=class/labs expect 0 "reduction" list
! grep -q "async\|softmax" "$here/out" || fail "$(cat "$here/out")"
WT_LAB_DIR=$here/work/class/labs expect 0 "lab 10" start 10 --folder ofclass
cp "$here/tape.cpp" ofclass/tape.cpp
echo "A line of this class" >>class/labs/10_tape/page.md
rm ofclass/page.md
expect 0 "restored page.md" start 10 --again --folder ofclass
grep -q "of this class" ofclass/page.md || fail "the page that was restored is not the class's"
cp class/labs/pack.json "$here"
sed -i 's/"version":"[^"]*"/"version":"0.0.1"/' class/labs/pack.json
expect 2 "were compiled with warptape 0.0.1" check ofclass
mv "$here/pack.json" class/labs

# --- reports, and who edits them ---
mkdir reports
expect 0 "ann.html" report ofclass --name "=Ann <b>" --out reports/ann.html
expect 11 "bob.html" report "$host/stub.cpp" --lab 10 --name Bob --out reports/bob.html
sed 's/Bob/Eve/g' reports/bob.html >reports/eve.html
sed 's/100 of 100/ 99 of 100/' reports/ann.html >reports/ann2.html
sed 's/$/\r/' reports/ann.html >reports/mailed.html
expect 0 "EDITED" table reports/eve.html
expect 0 "EDITED" table reports/ann2.html --class class/teacher.json
expect 0 "as written" table reports/ann.html --class class/teacher.json
expect 0 "as written" table reports/mailed.html --class class/teacher.json
expect 0 "as written, without the class's key" table reports/bob.html --class class/teacher.json
expect 0 "not known: --class has its key" table reports/ann.html
expect 0 "another" pack --out another --labs 10
expect 0 "of another class" table reports/ann.html --class another/teacher.json
echo nothing >reports/none.html
expect 0 "it is no report" table reports/none.html reports/ann.html
expect 3 "no key of a class" table reports/ann.html --class "$here/before/.wt_lab.json"
expect 0 "'=Ann <b>,tape,10,100,yes,yes,0,as written,reports/ann.html" table reports/ann.html --class class/teacher.json --csv
expect 0 '"rechecked":100' table reports/ann.html --class class/teacher.json --recheck --timeout 60 --json
# What is no report is not written over.
expect 2 "reports/none.html is there and is no report" report "$host/stub.cpp" --lab 10 --out reports/none.html
[ "$(cat reports/none.html)" = nothing ] || fail "a file that is no report was written over"
# The source is what is graded again, whatever the page says.
expect 0 '"points":0' table reports/bob.html --json
! grep -q "<b>=Ann\|=Ann <b>" <(sed 's/<script.*//' reports/ann.html) || fail "a name is a tag"
! grep -qiE "https?://|src=|@import" <(sed 's/<script.*//; s/<pre>.*//' reports/ann.html) || fail "the report asks a network"

# --- a kernel lab ---
expect 0 "lab04_reduction" start reduction
expect 11 "NOT PASSED: 0 of 100" check lab04_reduction --timeout 200
expect 0 "hint 1 of 3: Which thread writes the result" hint lab04_reduction
cp "$root/labs/04_reduction/solution.cu" lab04_reduction/reduction.cu
echo "int x = ;" >>lab04_reduction/reduction.cu
expect 11 "reduction.cu:$(wc -l <lab04_reduction/reduction.cu): error: expected primary-expression" check lab04_reduction
[ "$(grep -c FAILED "$here/out")" = 1 ] || fail "more than one row for what does not compile"
echo 'extern "C" int memcmp(const void*, const void*, unsigned long) { return 0; }' >lab04_reduction/reduction.cu
expect 11 "it defines memcmp" check lab04_reduction
expect 0 "give the file's functions names of their own" hint lab04_reduction  # the grader's: the lab has none
cp "$root/labs/04_reduction/solution.cu" lab04_reduction/reduction.cu
expect 0 "PASSED: 100 of 100" check lab04_reduction --timeout 200

# --- within the real program ---
expect 2 "--train: lab 4 names no program" check lab04_reduction --train
! grep -q "points" "$here/out" || fail "what --train cannot do is said when the check is over"
mkdir -p "$here/real/01_loss" "$here/train"
cat >"$here/real/01_loss/lab.json" <<END
{"number": 1, "name": "loss", "title": "A loss", "minutes": 1, "kind": "kernel", "file": "loss.cu", "pass": 50,
 "graded": [{"op": "cross_entropy_forward", "variant": "one_block", "points": 100}], "challenge": "none",
 "real": {"command": "train fashion --data synthetic --set model=mlp --device simt --batch 16 --steps 2 --quiet"}}
END
cp "$root/tests/grade/cross_entropy.cu" "$here/train/loss.cu"
export WT_LAB_DIR=$here/real
cd "$here/train"
expect 0 "cross_entropy_forward was taken" check loss.cu --train --timeout 200
grep -q "cross_entropy_forward was taken [1-9]" "$here/err" || fail "the program never took it"
[ "$(ls -A)" = loss.cu ] || fail "--train left $(ls -A)"
sed -i 's/"one_block", "points"/"by_atomics", "points"/' "$here/real/01_loss/lab.json"
sed -i 's/^void by_atomics.*/&\n  __builtin_trap();/' loss.cu
expect 11 "NOT PASSED" check loss.cu --train --timeout 200
grep -q "host code of the launch function" "$here/out" || fail "the hint is not the grader's"
! grep -q "was taken" "$here/err" || fail "what did not pass was trained with"
cd "$here/work"
unset WT_LAB_DIR
loads() {  # FILE TEXT: a program that is to load this says so
  local code=0
  WT_KERNEL_FILE=$1 "$wt" train fashion --data synthetic --set model=mlp --steps 1 --quiet --out "$here/run" \
    >"$here/out" 2>"$here/err" || code=$?
  [ "$code" -eq 2 ] || fail "WT_KERNEL_FILE=$1: exit code $code"
  grep -qF -- "$2" "$here/err" || fail "WT_KERNEL_FILE=$1: no \"$2\""
  rm -rf "$here/run"
}
loads "$here/nowhere.so" "cannot be loaded"
loads libm.so.6 "was not compiled for this program"
# shellcheck disable=SC2012
[ "$(ls -A "$here/work" | tr '\n' ' ')" = "a b another class file lab04_reduction lab10_tape ofclass reports " ] ||
  fail "$(ls -A "$here/work")"
echo "all right"
