#!/usr/bin/env bash
# Includes of the library point one way (arrows.sh), and the check sees those that do not.
set -u
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
"$here/arrows.sh" || bad=1

# expect FILE HEADER MESSAGE [FILE]: a tree of FILE alone (or of two), which includes HEADER in its
# second line; the message is empty where that is right.
expect() {
  rm -rf "$scratch/tree"
  local file
  for file in ${4:-} "$1"; do
    mkdir -p "$scratch/tree/$(dirname "$file")"
    : >"$scratch/tree/$file"
  done
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
expect core/a.h kernels/run.h "core must not use dispatch"
expect core/a.h core/b.h ""
expect core/memory/a.cpp core/files/json.h ""
expect core/a.h config.h ""
expect kernels/x.h autograd/node.h "contracts must not use autograd"
expect kernels/x.h kernels/common/rows.h ""
expect kernels/x.h kernels/run.h "contracts must not use dispatch"
expect kernels/x.h kernels/x/side.h "" kernels/x/x.cpp
expect kernels/x_more.h kernels/x/side.h "" kernels/x/x.cpp
expect kernels/y.h kernels/x/side.h "contracts must not use shared" kernels/x/x.cpp
expect kernels/x.h kernels/x/x_cpu.h "contracts must not use fast" kernels/x/x.cpp
expect kernels/common/rows.h kernels/x.h "common must not use contracts"
expect kernels/common/rows.h kernels/cpu/threads.h "common must not use cpu"
expect kernels/common/rows.h kernels/contract.h ""
expect kernels/cpu/threads.cpp kernels/x/x_cpu.h "cpu must not use fast"
expect kernels/dispatch/run_tuned.cpp kernels/run.h ""
expect kernels/dispatch/all.cpp kernels/x/x.cuh "dispatch must not use sources"
expect kernels/x/x.cpp kernels/cpu/threads.h "references must not use cpu"
expect kernels/x/x.cpp kernels/x/x_cpu.h ""
expect kernels/x/x_plain.cpp kernels/x/x_cpu.h ""
expect kernels/x/xy.cpp kernels/x/x_cpu.h "references must not use fast"
expect kernels/y/x.cpp kernels/x/x_cpu.h "references must not use fast"
expect kernels/x/x.cpp kernels/x/side.h ""
expect kernels/y/y.cpp kernels/x/side.h "it is inside of kernels/x"
expect kernels/x/x.cpp kernels/dispatch/run_inner.h ""
expect kernels/x/x.cpp kernels/device/launch.cuh "references must not use device"
expect kernels/x/x_cpu.cpp kernels/cpu/threads.h ""
expect kernels/x/x_cpu.cpp kernels/x/x.cuh "fast must not use sources"
expect kernels/x/x_cpu.cpp kernels/device/launch.cuh "fast must not use device"
expect kernels/x/x.cu kernels/x/x.cuh ""
expect kernels/y/y.cu kernels/x/x.cuh "it is inside of kernels/x"
expect kernels/x/x.cu kernels/cpu/x.h "sources must not use cpu"
expect kernels/x/x.cu kernels/x/x_cpu.h "sources must not use fast"
expect kernels/x/x.cu kernels/simt/scheduler.h "sources must not use simt"
expect kernels/x/x.cu kernels/simt/simt.h ""
expect kernels/x/x_cublas.cpp kernels/cuda/blas.h ""
expect autograd/ops/a.cpp kernels/cpu/x.h "autograd must not use cpu"
expect autograd/ops/a.cpp kernels/x/x.h "autograd must not use shared"
expect autograd/ops/a.cpp kernels/x.h ""
expect autograd/ops/internal/a.cpp nn/module.h "autograd must not use nn"
expect autograd/ops/a.cpp autograd/ops/internal/a.h ""
expect autograd/a.cpp autograd/vmap/b.h "it is inside of autograd/vmap"
expect autograd/vmap/a.cpp autograd/vmap/b.h ""
expect nn/a.cpp optim/arena.h "nn must not use optim"
expect data/a.cpp autograd/ops.h "data must not use autograd"
expect data/sets/a.cpp data/formats/b.h "it is inside of data/formats"
expect optim/a.cpp dist/communicator.h "optim must not use dist"
expect dist/a.cpp optim/reducer.h ""
expect dist/a.cpp optim/arena/b.h "it is inside of optim/arena"
expect dist/a.cpp data/loader.h "dist must not use data"
expect optim/a.cpp tests/support/errors.h "optim must not use tests"
exit $bad
