#!/usr/bin/env bash
# After its warm-up, neither the tape nor a training step takes anything from the heap: exactly 0
# calls of malloc and its kin in 1,000 calls (20 of the large ones). Usage: mallocs_test.sh WT
set -uo pipefail
bad=0
for row in tape_add mlp_tiny mlp_small mnist_cnn fashion_cnn adam_step; do
  case $row in *_cnn | adam_step) calls=20 ;; *) calls=1000 ;; esac
  found=$("$1" bench overhead --only $row --calls $calls --json | sed -n 's/.*"mallocs":\([^,]*\),.*/\1/p')
  echo "$row: ${found:-nothing}"
  [ "$found" = -1 ] && { echo "SKIPPED: this build does not count"; exit 77; }
  [ "$found" = 0 ] || bad=1
done
exit $bad
