#!/usr/bin/env bash
# run_gpu_case.sh PROGRAM ARGS...: a ctest entry that walks the cuda device too. Without a GPU it is
# skipped and says why; nothing is run on the other devices for a second time.
set -u
here=$(dirname "${BASH_SOURCE[0]}")
probe=$("$1" "[gpu_probe]" 2>&1)
if why=$(grep -m1 'SKIPPED:' <<<"$probe"); then
  echo "$why"
  echo "cases: 0 passed, 0 failed, 1 skipped"
  exit 77
fi
WT_TEST_DEVICES=cpu,simt,cuda exec "$here/run_case.sh" "$@"
