#!/usr/bin/env bash
# wt step: commands from a pipe walk through a block; blocks, launches and kernels that there are
# not are told. Usage: wt_step_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
bad=0
fail() { echo "FAILED: $*"; bad=1; }
refused() {  # refused TEXT ARGUMENTS...: exit code 2, and these words
  local said rc=0
  said=$("$wt" step "${@:2}" 2>&1 </dev/null) || rc=$?
  [ $rc -eq 2 ] || fail "wt step ${*:2}: exit code $rc: $said"
  grep -qF -- "$1" <<<"$said" || fail "wt step ${*:2}: no '$1' in: $said"
}
refused "did you mean 'softmax_forward'" softmax_froward
if [ ! -x "${wt%/*}/wt_race" ]; then
  refused "WARPTAPE_FLAVOURS='plain;race'" softmax
  echo "SKIPPED: no wt_race: this build has no instrumented kernels"
  [ $bad -eq 0 ] && exit 77
  exit 1
fi
refused "the grid has blocks 0 to" softmax_forward:naive --op 5x304 --block 99
refused "makes no launch of number 3" softmax_forward:naive --op 5x304 --launch 3

# A block of naive has a row a thread: five lanes, each of which reads a row three times.
said=$(printf 'n 2\nl 1\nb\ng 914\nq\nn\n' |
  "$wt" step softmax_forward:naive --op 5x304 --source "$root") || fail "exit code $?"
has() { grep -qF -- "$1" <<<"$said" || fail "no '$1' in: $said"; }
has "block 0: 1216 steps"
has "step 1 of 1216, warp 0, 5 of 32 lanes: load 4 bytes of device memory  (softmax.cu:"
has "5 sectors of 32 bytes, of which 20 are wanted"
has "step 3 of 1216"
has " 1  A+1224  "
has "lane 1 of warp 0, the newest first:"
has "step 914 of 1216, warp 0, 5 of 32 lanes: store 4 bytes"
grep -qF "step 915" <<<"$said" && fail "q does not end: $said"
[ "$(grep -c '^  > ' <<<"$said")" -eq 5 ] || fail "the source is not shown at each step: $said"
[ $bad -eq 0 ]
