#!/usr/bin/env bash
# planted.sh BUILD PROGRAM: every fault of tests/emulator/planted is caught, by a report of the emulator
# that says what is wrong, by CUDA's error, or by a wrong result where the fault is one of values.
set -u
build=$1 program=$2
emulate=$(dirname "$0")/../../tools/emulate
bad=0 known=0
# caught NAME TEXT: the run of this fault ends in failure, and says TEXT (a regular expression).
caught() {
  local name=$1 text=$2 said rc
  known=$((known + 1))
  said=$("$emulate" --build "$build" --devices 2 "$program" "$name" 2>&1)
  rc=$?
  if [ $rc -eq 0 ] || ! grep -Eq "$text" <<<"$said"; then
    echo "FAILED: $name was not caught (exit code $rc, wanted: $text):"
    printf '%s\n' "$said"
    bad=1
  fi
}
wrong='its own check says 1$'
caught out_of_bounds 'past block'
caught far_away 'reads|writes'
caught use_after_free 'freed'
caught null_pointer 'writes 4 bytes at 0x0'
caught misaligned 'not a multiple of 16'
caught local_out_of_bounds 'writes 4 bytes'
caught shared_out_of_bounds 'shared memory'
caught uninitialised "$wrong"
caught uninitialised_shared "$wrong"
caught host_reads_device 'host code reads device memory'
caught missing_event 'nothing orders'
caught event_recorded_too_early 'nothing orders'
caught overwritten_too_early 'nothing orders'
caught source_changed 'changed before'
caught source_freed 'freed'
caught result_read_early "$wrong"
caught missing_atomic "$wrong"
caught order_of_blocks "$wrong"
caught missing_syncthreads '__syncthreads\(\) is missing'
caught one_syncthreads_too_few '__syncthreads\(\) is missing'
caught diverged_syncthreads 'two different __syncthreads'
caught barrier_without_partner 'wait for each other for ever'
caught member_mask 'does not name this lane'
caught shuffle_without_partner 'wait for each other for ever'
caught missing_async_wait "$wrong"
caught wrong_fragment "$wrong"
caught missing_attribute 'its own check says 1$'
caught too_many_threads 'its own check says 9$'
caught other_devices_memory 'another device'
caught other_devices_stream 'its own check says 400$'
caught malloc_in_capture 'its own check says 900$'
caught sync_in_capture 'its own check says 900$'
caught freed_twice 'its own check says 1$'
caught copy_the_wrong_way 'its own check says (1|21)$'
caught device_assert 'assertion'
there=$("$emulate" --build "$build" "$program" | wc -l)
if [ "$there" -ne "$known" ]; then
  echo "FAILED: the program has $there faults, planted.sh knows $known"
  bad=1
fi
[ $bad -eq 0 ] && echo "planted faults of cuda programs: $known, all caught"
exit $bad
