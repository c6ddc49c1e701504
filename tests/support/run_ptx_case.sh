#!/usr/bin/env bash
# run_ptx_case.sh BUILD PROGRAM ARGS...: a ctest entry that walks the emulated cuda device alone, with
# two seeds of interleaving. Its last line but one is the emulator's count of what ran.
set -u
here=$(dirname "${BASH_SOURCE[0]}")
build=$1
shift
export WT_TEST_DEVICES=cuda WT_EMU_SUMMARY=1 WT_EMU_DEVICES=2
export LD_LIBRARY_PATH="$build/emulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
for seed in ${WT_EMU_SEEDS:-1 2}; do
  WT_EMU_STREAMS=lazy:$seed "$here/run_case.sh" "$@"
  rc=$?
  [ $rc -eq 0 ] || exit $rc
done
