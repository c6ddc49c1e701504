#!/usr/bin/env bash
# run_ptx_case.sh BUILD PROGRAM ARGS...: a ctest entry that walks the emulated cuda device, the cpu
# beside it where results are compared (not for whole steps, nor where the test itself knows what comes
# out), with two seeds of interleaving, or one where numbers are walked, and where limits matter with
# the shared memory of smaller GPUs. Each ends with the emulator's count of what ran.
set -u
here=$(dirname "${BASH_SOURCE[0]}")
build=$1
shift
export WT_TEST_DEVICES=cpu,cuda WT_EMU_SUMMARY=1 WT_EMU_DEVICES=2
case $* in
  *ops_test* | *torch_test* | *steps_test* | *'[#matmul_test'* | *'[#reduce_test'* | \
    *'[#sort_test'* | *'[#cdist_test'* | *'[#ops_svd_test'* | *'[#ops_linalg_test'* | \
    *'[#ops_fourier_test'* | *'[#ops_ctc_test'* | *'[#ops_conv_test'*)
    WT_TEST_DEVICES=cuda
    ;;
esac
# Walks over values launch each kernel many times, and every launch is interleaved in its own way: a
# second walk would show little. The others are about order; tools/nightly.sh has 20 seeds for all.
case $* in
  *steps_test* | *torch_test* | *'[#ops_'* | *cudnn_rows_test* | *'[#matmul_test'* | \
    *'[#reduce_test'* | *'[#sort_test'* | *'[#cdist_test'*)
    WT_EMU_SEEDS=${WT_EMU_SEEDS:-1}
    ;;
esac
export LD_LIBRARY_PATH="$build/emulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# One test of that file makes the device fault on purpose, which is a finding.
case $* in *cuda_gpu_test*) export WT_EMU_CHECK=report ;; esac
limits=227K
case $* in *cuda_path_test*) limits="227K 163K 99K" ;; esac  # of an H100, an A100, an RTX 4090
for shared in $limits; do
  for seed in ${WT_EMU_SEEDS:-1 2}; do
    WT_EMU_SHARED=$shared WT_EMU_STREAMS=lazy:$seed "$here/run_case.sh" "$@"
    rc=$?
    [ $rc -eq 0 ] || exit $rc
  done
done
