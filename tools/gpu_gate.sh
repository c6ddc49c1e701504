#!/usr/bin/env bash
# Everything that needs a GPU, in calls of less than ten minutes on a machine that has little:
# values on cuda against the cpu, ceilings, training steps beside PyTorch, every variant's time,
# memory checkers. docs/gpu_gate.md says more.
#
#   tools/gpu_gate.sh --pack FILE.tar.xz             what a machine without compilers needs, one file
#   tools/gpu_gate.sh OUTDIR --with FILE.tar.xz      there: measures; called again it goes on
#   tools/gpu_gate.sh OUTDIR [PART...]               with programs that are built here
#
# Programs come from --with, from WT_BUILD_DIR, or from the preset "gate", which is built first. A
# call ends within WT_GATE_SECONDS (540) and names the parts that are left.
#
# Exit code: 0 when every part passed, or when there is no GPU (the page says SKIPPED and why); 1
# when a part failed, named in the last line; 2 for a wrong command line; 3 when parts are left; 130
# when it was interrupted.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if ! command -v python3 >/dev/null; then
  echo "GPU gate stopped: it needs python3, 3.9 or later (apt-get install python3)" >&2
  exit 2
fi
gate() { exec python3 "$here/tools/gate/gate.py" "$@"; }
for arg in "$@"; do
  case $arg in
    --with | --with=* | -h | --help) gate "$@" ;;
  esac
done
if [ $# -gt 0 ] && [ -z "${WT_BUILD_DIR:-}" ]; then
  export WT_BUILD_DIR=$here/build/gate
  echo "building in $WT_BUILD_DIR"
  (cd "$here" && cmake --preset gate >/dev/null &&
    cmake --build build/gate --parallel --target wt_gpu) || {
    echo "GPU gate stopped: the build failed"
    exit 1
  }
fi
gate "$@"
