#!/usr/bin/env bash
# textbook.sh BUILD PROGRAM: a CUDA program on the emulated device, once at once and with two seeds of
# interleaving (or those of WT_EMU_SEEDS); it checks its own result and prints "NAME: ok".
set -u
build=$1 program=$2 bad=0
report=()
case $program in *illegal_address | *device_assert) report=(--report) ;; esac  # they fault on purpose
for seed in eager ${WT_EMU_SEEDS:-1 2}; do
  how=(--seed "$seed")
  [ "$seed" != eager ] || how=(--eager)
  how+=("${report[@]}")
  if ! said=$("$(dirname "$0")/../../tools/emulate" --build "$build" "${how[@]}" "$program" 2>&1); then
    echo "FAILED with ${how[*]}:"
    bad=1
  fi
  printf '%s\n' "$said"
  grep -q ': ok$' <<<"$said" || bad=1
done
exit $bad
