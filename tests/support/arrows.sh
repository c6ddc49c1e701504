#!/usr/bin/env bash
# arrows.sh [TREE]: says which include of the library points up, with its file and line; exit code 1
# if one does. tools, bench and tests may use everything, nothing of the library uses them.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

# A room, and what it may include beside itself and core. The rooms in kernels/: contracts (*.h),
# references (*.cpp), sources (*.cu), vendor (*_cublas.cpp, *_cudnn.cpp), lists (all.cpp, run.cpp),
# and the folders. A path with a dot is that one file.
rooms='
core
common      contract.h
contracts   common
references  common contracts
cpu         common contracts
device      common contracts simt/simt.h
sources     common contracts device simt/simt.h
simt        device/launch.cuh
cuda        contract.h
vendor      common contracts cuda
lists       common contracts cuda simt
autograd    contracts
nn          contracts autograd
data        contracts
optim       contracts autograd nn
dist        contracts autograd nn optim cuda
'
# A reference names its variants in its table: kernels/x.cpp may include kernels/cpu/x.h too.
# Beside that: the host side of launches and of tensor maps knows both devices, and kernels that copy
# asynchronously take the executor's side of it (in simt.h it would be in all kernels), which reads
# tensor maps. cuDNN's graphs have the images of convolution and pooling.
exceptions='
kernels/device/async_copy.cuh kernels/simt/async_copy.h
kernels/cuda/cudnn_graph.h kernels/conv.h
kernels/device/mbarrier.cuh kernels/simt/hopper.h
kernels/device/tensor_map.cpp kernels/cuda/api.h
kernels/device/tensor_map.cpp kernels/simt/executor.h
kernels/simt/hopper.h kernels/device/tensor_map.h
kernels/device/launch.cpp kernels/cuda/api.h
kernels/device/launch.cpp kernels/simt/executor.h
kernels/device/launch.cpp kernels/simt/runtime.h
'

folders=()
for folder in core kernels autograd nn optim data dist; do
  [ -d $folder ] && folders+=("$folder")
done
grep -rnE '^[[:space:]]*#[[:space:]]*include "warptape/' --include='*.h' --include='*.cpp' \
  --include='*.cu' --include='*.cuh' --include='*.inc' "${folders[@]}" |
  awk -F: -v rooms="$rooms" -v exceptions="$exceptions" '
    function room_of(path, parts, n) {
      n = split(path, parts, "/")
      if (n == 1) return "generated"
      if (parts[1] != "kernels") return parts[1]
      if (n > 2) return parts[2]
      if (path ~ /\.cu$/) return "sources"
      if (path ~ /_(cublas|cudnn)\.cpp$/) return "vendor"
      if (path ~ /\/(all|run)\.cpp$/) return "lists"
      return path ~ /\.cpp$/ ? "references" : "contracts"
    }
    function is_own_table(from, to, stem) {  # kernels/pointwise_plain.cpp: kernels/cpu/pointwise.h
      if (to !~ /^kernels\/cpu\/[^\/]*\.h$/) return 0
      stem = substr(to, length("kernels/cpu/") + 1)
      sub(/\.h$/, "", stem)
      return from == "kernels/" stem ".cpp" || index(from, "kernels/" stem "_") == 1
    }
    BEGIN {
      n = split(rooms, lines, "\n")
      for (i = 1; i <= n; ++i) {
        m = split(lines[i], words, " ")
        if (m == 0) continue
        known[words[1]] = 1
        allowed[words[1], words[1]] = allowed[words[1], "core"] = allowed[words[1], "generated"] = 1
        for (k = 2; k <= m; ++k)
          allowed[words[1], words[k] ~ /\./ ? "kernels/" words[k] : words[k]] = 1
      }
      n = split(exceptions, lines, "\n")
      for (i = 1; i <= n; ++i) excepted[lines[i]] = 1
    }
    {
      from = $1
      to = $0
      sub(/^[^"]*"warptape\//, "", to)
      sub(/".*/, "", to)
      here = room_of(from)
      there = room_of(to)
      if (((here, there) in allowed) || ((here, to) in allowed)) next
      if (here == "references" && is_own_table(from, to)) next
      if ((from " " to) in excepted) next
      if (!(here in known)) here = here " (a room that arrows.sh does not know)"
      printf "%s:%s: includes %s: %s must not use %s\n", from, $2, to, here, there
      wrong = 1
    }
    END { exit wrong }'
