#!/usr/bin/env bash
# Includes of the library point one way (arrows.sh), and the check sees those that do not.
set -u
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
"$here/arrows.sh" || bad=1

# expect FILE HEADER MESSAGE: a tree of FILE alone, which includes HEADER in its second line; the
# message is empty where that is right.
expect() {
  rm -rf "$scratch/tree"
  mkdir -p "$scratch/tree/$(dirname "$1")"
  printf '#pragma once\n#include "warptape/%s"\n' "$2" >"$scratch/tree/$1"
  local said wanted=$3
  [ -n "$wanted" ] && wanted="$1:2: includes $2: $wanted"
  said=$("$here/arrows.sh" "$scratch/tree")
  local rc=$?
  if [ "$said" != "$wanted" ] || [ "$rc" != "$([ -z "$wanted" ] && echo 0 || echo 1)" ]; then
    echo "FAILED $1 including $2: exit code $rc, said: $said, wanted: $wanted"
    bad=1
  fi
}
expect core/a.h kernels/run.h "core must not use contracts"
expect core/a.h core/b.h ""
expect core/a.h config.h ""
expect kernels/x.h autograd/node.h "contracts must not use autograd"
expect kernels/x.h kernels/common/rows.h ""
expect kernels/common/rows.h kernels/x.h "common must not use contracts"
expect kernels/common/rows.h kernels/cpu/threads.h "common must not use cpu"
expect kernels/common/rows.h kernels/contract.h ""
expect kernels/x.cpp kernels/cpu/threads.h "references must not use cpu"
expect kernels/x.cpp kernels/cpu/x.h ""
expect kernels/x_plain.cpp kernels/cpu/x.h ""
expect kernels/xy.cpp kernels/cpu/x.h "references must not use cpu"
expect kernels/x.cpp kernels/device/launch.cuh "references must not use device"
expect kernels/x.cu kernels/cpu/x.h "sources must not use cpu"
expect kernels/x.cu kernels/simt/scheduler.h "sources must not use simt"
expect kernels/x.cu kernels/simt/simt.h ""
expect kernels/cpu/x.cpp kernels/device/launch.cuh "cpu must not use device"
expect kernels/x_cublas.cpp kernels/cuda/blas.h ""
expect autograd/ops/a.cpp kernels/cpu/x.h "autograd must not use cpu"
expect autograd/ops/a.cpp kernels/x.h ""
expect autograd/ops/internal/a.cpp nn/module.h "autograd must not use nn"
expect nn/a.cpp optim/arena.h "nn must not use optim"
expect data/a.cpp autograd/ops.h "data must not use autograd"
expect optim/a.cpp dist/communicator.h "optim must not use dist"
expect dist/a.cpp optim/reducer.h ""
expect dist/a.cpp data/loader.h "dist must not use data"
expect optim/a.cpp tests/support/errors.h "optim must not use tests"
expect kernels/attic/a.cpp core/a.h "attic (a room that arrows.sh does not know) must not use core"
exit $bad
