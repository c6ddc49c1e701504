#!/usr/bin/env bash
# Kills the checkpoint writer until N kills have left a temporary file, which is when they hit it
# while it wrote, and reads the checkpoint after each: it must be whole and not older than the last,
# and the next start must clear the temporary file away. Once in memory, once on the disk, where
# fsync() takes its time. Exit code 1 for one unreadable checkpoint.
#
#   tools/kill_harness.sh [--kills N] [--build DIR] [--disk FOLDER] [--output FILE] [--jobs N]
#       N is 200, by the wt_tests of DIR (build/ci); FOLDER (/var/tmp) is on the disk. FILE gets the
#       result. --jobs has no effect (tools/nightly.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
kills=200 build=build/ci disk=/var/tmp output=""
while [ $# -gt 0 ]; do
  case $1 in
    --kills) kills=${2:?} ;;
    --build) build=${2:?} ;;
    --disk) disk=${2:?} ;;
    --output) output=${2:?} ;;
    --jobs) ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "kill_harness: unknown option $1 (tools/kill_harness.sh --help)" >&2; exit 2 ;;
  esac
  shift 2
done
program=$build/wt_tests
[ -x "$program" ] || { echo "kill_harness: $program is not there (cmake --build $build --target wt_tests)" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
result=0
report() { echo "$@" | tee -a "$scratch/result"; }
report "# Written by tools/kill_harness.sh: SIGKILL at random moments of writing checkpoints of 400 kB."
report "commit $(git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || echo unknown)"
report "date $(date +%F)"
# run WHERE FOLDER: "" is the tests' own choice, memory.
run() {
  local begin=$SECONDS state=passed
  env ${2:+TMPDIR="$2"} WT_KILLS="$kills" "$program" "SIGKILLs inside the checkpoint writer*" \
    >"$scratch/out" 2>&1 || { state=FAILED result=1; tail -40 "$scratch/out"; }
  report "$state $1, $((SECONDS - begin)) s: $(sed -n 's/^kills: //p' "$scratch/out")"
}
run memory ""
run "disk ($(stat -f -c %T "$disk"))" "$disk"
[ -z "$output" ] || cp "$scratch/result" "$output"
exit $result
