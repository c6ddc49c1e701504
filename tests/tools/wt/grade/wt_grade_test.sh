#!/usr/bin/env bash
# wt grade: files that are no kernels, or not one's own, names that are none, no compiler, no room.
# What kernels it accepts and rejects is in tests/grade.
#
#   wt_grade_test.sh WT
set -euo pipefail
wt=$1
root=$(cd "$(dirname "$0")/../../../.." && pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
mkdir "$here/tmp"
export TMPDIR=$here/tmp
fail() {
  echo "FAILED: $*"
  [ ! -s "$here/err" ] || cat "$here/err"
  [ ! -s "$here/out" ] || cat "$here/out"
  exit 1
}
more=(--no-nvcc)
expect() {  # CODE TEXT ARGUMENTS...: `wt grade` ends with this code, says this, and leaves nothing
  local want=$1 text=$2 code=0
  shift 2
  "$wt" grade --seed 3 --timeout "${seconds:-200}" "${more[@]}" "$@" >"$here/out" 2>"$here/err" || code=$?
  [ "$code" -eq "$want" ] || fail "wt grade $*: exit code $code, not $want"
  grep -qF -- "$text" "$here/out" "$here/err" || fail "wt grade $*: no \"$text\""
  [ -z "$(ls -A "$here/tmp")" ] || fail "wt grade $*: $(ls "$here/tmp") is left"
}

kernel() {  # FILE LINES: a right kernel for add, with these lines before it
  { printf '%s\n' "$2" && cat "$root/tests/grade/plain_add.cu"; } >"$1"
}
rejects() {  # LINES TEXT: before a right kernel, these are reason enough
  kernel "$here/cheat.cu" "$1"
  expect 11 "$2" "$here/cheat.cu" --op add
}

# --- files as editors write them, in folders as people name them ---
mkdir "$here/a \$HOME of #1"
odd="$here/a \$HOME of #1/ker nel.cu"
kernel "$here/plain.cu" ""
{
  printf '\xef\xbb\xbf'
  sed 's/$/\r/' "$here/plain.cu"
} >"$odd"
expect 0 "PASSED  add, mine" "$odd" --op add
if grep -q "nvcc" "$here/out"; then fail "--no-nvcc: of nvcc is said something"; fi
expect 0 '"passed":true' "$odd" --op add --json
# Where it fails the line is still that of the file.
sed -i 's/if (i < n) out/if (i <= n) out/' "$odd"
expect 11 "ker nel.cu:$(grep -n 'i <= n' "$odd" | cut -d: -f1): outside" "$odd" --op add

# --- names ---
expect 2 "did you mean 'gelu'" "$here/plain.cu" --op gelus
expect 2 "did you mean 'mine'" "$here/plain.cu" --op add --variant mind
expect 3 "no_such_file.cu" "$here/no_such_file.cu" --op add
expect 3 "a \$HOME" "$here/a \$HOME of #1" --op add

# --- no kernels, or others ---
: >"$here/empty.cu"
expect 11 "it has no variant of add" "$here/empty.cu" --op add
expect 11 "it has no variant of gelu, but of add" "$here/plain.cu" --op gelu
head -c 300 /dev/zero >"$here/zeros.cu"
expect 11 "empty: it has no variant" "$here/zeros.cu" --op add
echo "int x = ;" >"$here/no.cu"
expect 11 "no.cu:1: compile: error: expected primary-expression" "$here/no.cu" --op add
rejects '#include "warptape/kernels/copy/copy.cu"' "borrowed: it includes"
rejects '#include "warptape/kernels/reduce/reduce.cuh"' "borrowed: it includes"

# --- what is the runner's ---
rejects 'int main() { return 0; }' "main"
rejects 'extern "C" int memcmp(const void*, const void*, unsigned long) noexcept { return 0; }' \
  "reach: it defines memcmp"
rejects '#include <cstdlib>
void* operator new(unsigned long n) { return std::malloc(n); }' "reach: it defines operator new"
rejects '#include <unistd.h>
static const auto written = ::write(4, "", 0);' "reach: it calls write"
rejects '#include "warptape/kernels/simt/executor.h"
static const bool protect = wt::simt_protect(false);' "reach: it calls wt::simt_protect"
rejects 'namespace wt { int num_threads() { return 64; } }' "num_threads"
# A program that one flavour cannot be made of would not be looked at there.
rejects '#if defined(__SANITIZE_THREAD__)
#error no races
#endif' "it compiles as plain, and has to as race too"

rejects '#if defined(__SANITIZE_ADDRESS__)
extern int nothing __asm__("cannot find -lasan");
int* used = &nothing;
#endif' "it compiles as plain, and has to as asan too"

# --- before main() ---
rejects '#include <cstdlib>
struct Ends { Ends() { std::_Exit(127); } };
static const Ends ends;' "exit: it ended the process with exit code 127"
kernel "$here/hangs.cu" 'struct Hangs { Hangs() { for (volatile int turn = 1; turn;) {} } };
static const Hangs hangs;'
seconds=1 expect 11 "hang: it does not come back" "$here/hangs.cu" --op add
# Ctrl-C while it hangs: the folder of what is compiled goes, too.
interrupted=0
"$wt" grade --timeout 500 "$here/hangs.cu" --op add >"$here/out" 2>"$here/err" & grader=$!
for ((i = 0; i < 600; ++i)); do
  if pgrep -f "$here/tmp/.*/kernel.plain" >/dev/null; then break; fi
  sleep 0.1
done
kill -TERM "$grader"  # what is started in the background ignores SIGINT
wait "$grader" || interrupted=$?
[ "$interrupted" -eq 143 ] || fail "an interrupted wt grade: exit code $interrupted, not 143"
[ -z "$(ls -A "$here/tmp")" ] || fail "an interrupted wt grade leaves $(ls "$here/tmp")"

# --- no compiler, no room ---
CXX=$here/no/c++ expect 2 "needs a C++20 compiler" "$here/plain.cu" --op add
# One that has no sanitizer's library: the note says that this part was not looked at.
printf '#!/bin/sh\ncase " $* " in\n  *" -c "*) ;;\n  *-fsanitize=address*) echo "cannot find -lasan" >&2; exit 1 ;;\nesac\nexec c++ "$@"\n' >"$here/c++"
chmod +x "$here/c++"
CXX=$here/c++ expect 0 "note: not run as asan: this build or machine has not what it needs" "$here/plain.cu" --op add
mkdir "$here/few"
for tool in as ld c++ env grep ls; do ln -s "$(command -v "$tool")" "$here/few/$tool"; done
CXX=$(command -v c++) PATH=$here/few expect 2 "nm of the binutils" "$here/plain.cu" --op add
TMPDIR=$here/nowhere expect 8 "TMPDIR" "$here/plain.cu" --op add
(
  ulimit -f 16
  expect 8 "no room" "$here/plain.cu" --op add
)
# A file system that is full when the object file is written, and one when a program is linked.
for kib in 200 3000 6000; do
  code=0
  # shellcheck disable=SC2016
  unshare -rm bash -c 'mount -t tmpfs -o "size=$1k" tmpfs "$2/tmp" && touch "$2/mounted" &&
    "$3" grade "$2/plain.cu" --op add --timeout 200' - $kib "$here" "$wt" \
    >"$here/out" 2>"$here/err" || code=$?
  [ -e "$here/mounted" ] || { echo "no file system can be mounted: not tried full" && break; }
  [ "$code" -eq 8 ] || fail "$kib KiB: exit code $code"
  grep -q "no room" "$here/err" || fail "$kib KiB: no \"no room\""
done
WT_GRADE_DIR=$here/nowhere expect 2 "grade.conf" "$here/plain.cu" --op add

# --- as nvcc compiles it, under a name that a shell would not leave as it is ---
more=()
conf=${WT_GRADE_DIR:-${wt%/*}/grade}/grade.conf
if grep -q '^nvcc ' "$conf"; then
  # An array that is indexed by what only a run knows has no registers.
  {
    printf '\xef\xbb\xbf'
    sed 's/if (i < n) out.*/int own[64] = {};\
  for (int k = 0; k < n % 64; ++k) own[k * n % 64] = k;\
  if (i < n) out[i] = a[i] + b[i] + float(own[i % 64] < 0);/' "$here/plain.cu" | sed 's/$/\r/'
  } >"$odd"
  expect 0 "launches on the emulated device" "$odd" --op add
  grep -q "add: [0-9]* registers, 256 bytes of stack" "$here/out" || fail "no stack is told of"
  # A machine that it is gone from.
  mkdir "$here/gone"
  sed "s|^nvcc .*|nvcc $here/no/nvcc|" "$conf" >"$here/gone/grade.conf"
  WT_GRADE_DIR=$here/gone expect 0 "note: not judged as nvcc compiles it: " "$here/plain.cu" --op add
else
  expect 0 "note: not judged as nvcc compiles it: this wt has no emulated device" \
    "$here/plain.cu" --op add
fi
more=(--no-nvcc)

# --- what was compiled stays where it is wanted ---
expect 0 "PASSED" "$here/plain.cu" --op add --keep "$here/kept here"
[ -x "$here/kept here/kernel.race" ] || fail "--keep kept nothing"
expect 8 "kept" "$here/plain.cu" --op add --keep "$here/plain.cu/kept"
echo "all right"
