#!/usr/bin/env bash
# Trains a small GPT and a CNN for N steps each with all that a run does (shuffling, workers, dropout,
# an average of the weights, clipping, evaluations, metrics, TensorBoard events, checkpoints): after
# a fifth of the run live bytes, tensors, allocator requests, reserved bytes, files and threads must
# not change, and the process may not grow by more than 256 KiB. Then memory alone, as many rounds:
# tensors that one thread makes, a second uses and a third walks back and drops, and sizes that grow
# and never come back. Exit code 1 if anything grows.
#
#   tools/soak.sh [--steps N] [--build DIR] [--output FILE] [--jobs N]
#       N is 10000, by the wt_tests of DIR (build/ci). FILE gets the result. --jobs has no effect
#       (tools/nightly.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
steps=10000 build=build/ci output=""
while [ $# -gt 0 ]; do
  case $1 in
    --steps) steps=${2:?} ;;
    --build) build=${2:?} ;;
    --output) output=${2:?} ;;
    --jobs) ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "soak: unknown option $1 (tools/soak.sh --help)" >&2; exit 2 ;;
  esac
  shift 2
done
program=$build/wt_tests
[ -x "$program" ] || { echo "soak: $program is not there (cmake --build $build --target wt_tests)" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
state=passed begin=$SECONDS
WT_SOAK_STEPS=$steps "$program" "soak:*" >"$scratch/out" 2>&1 || state=FAILED
{
  echo "# Written by tools/soak.sh: what a long run holds."
  echo "commit $(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || echo unknown)"
  echo "date $(date +%F)"
  echo "$state $steps steps of each model and rounds of each memory, $((SECONDS - begin)) s"
  sed -n 's/^soak: //p' "$scratch/out"
} | tee "$scratch/result"
[ $state = passed ] || tail -40 "$scratch/out"
[ -z "$output" ] || cp "$scratch/result" "$output"
[ $state = passed ]
