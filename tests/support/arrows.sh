#!/usr/bin/env bash
# arrows.sh [TREE]: says which include of the library points up, with its file and line; exit code 1
# if one does. tools, bench and tests may use everything, nothing of the library uses them.
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"

# A kind of file, and what it may include beside its own kind and core. In kernels/: contracts (x.h),
# the rooms that all share (common, cpu, device, cuda, simt, dispatch; kernels/run*.h are dispatch's
# face; jit, which compiles at run time), and in the room of a family: shared (x.h), references
# (x.cpp), fast (x_cpu.*), sources (x.cu, x.cuh), vendor (x_cublas.cpp, x_cudnn.cpp). A path with a dot is that one file.
kinds='
core
common      contract.h
contracts   common
shared      common contracts
cpu         common contracts
device      common contracts simt/simt.h
simt        device/launch.cuh
cuda        contract.h
jit         contract.h cuda
dispatch    common contracts cuda simt
references  common contracts shared dispatch
fast        common contracts shared dispatch cpu
sources     common contracts shared dispatch device simt/simt.h
vendor      common contracts shared dispatch cuda
autograd    contracts dispatch jit
nn          contracts dispatch autograd
data        contracts dispatch
optim       contracts dispatch autograd nn
dist        contracts dispatch autograd nn optim cuda
'
# What lies in a room is the room's own, so that a header for others lies in the layer's folder; but
# core's rooms and those that all kernels share are for everybody whom the kinds let in. A contract
# may include what its room shares; a reference names its variants in its table: x.cpp may include
# x_cpu.h too.
# Beside that: the host side of launches and of tensor maps knows both devices, and kernels that copy
# asynchronously take the executor's side of it (in simt.h it would be in all kernels), which reads
# tensor maps. cuDNN's graphs have the images of convolution and pooling. Blocks of simt run on the
# cpu kernels' threads.
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
kernels/simt/grid.cpp kernels/cpu/threads.h
'

folders=()
for folder in core kernels autograd nn optim data dist; do
  [ -d $folder ] && folders+=("$folder")
done
grep -rnE '^[[:space:]]*#[[:space:]]*include "warptape/' --include='*.h' --include='*.cpp' \
  --include='*.cu' --include='*.cuh' --include='*.inc' "${folders[@]}" |
  awk -F: -v kinds="$kinds" -v exceptions="$exceptions" '
    # The room that a file is in, "" for one of its layer and in rooms for all.
    function room_of(path, parts, n) {
      n = split(path, parts, "/")
      if (n < 3 || parts[1] == "core" || parts[2] == "ops") return ""
      if (parts[1] == "kernels" && parts[2] ~ /^(common|cpu|device|cuda|jit|simt|dispatch)$/) return ""
      return parts[1] "/" parts[2]
    }
    function kind_of(path, parts, n) {
      n = split(path, parts, "/")
      if (n == 1) return "generated"
      if (parts[1] != "kernels") return parts[1]
      if (path ~ /^kernels\/run[._]/) return "dispatch"
      if (n == 2) return "contracts"
      if (room_of(path) == "") return parts[2]
      if (path ~ /_cpu\.[a-z]+$/) return "fast"
      if (path ~ /\.cuh?$/) return "sources"
      if (path ~ /_(cublas|cudnn)\.cpp$/) return "vendor"
      return path ~ /\.cpp$/ ? "references" : "shared"
    }
    function is_own_room(from, to, stem, line) {  # kernels/fft_x.h: kernels/fft/side.h, beside fft.cpp
      if (kind_of(from) != "contracts" || kind_of(to) != "shared") return 0
      stem = from
      sub(/^kernels\//, "", stem)
      sub(/\.h$/, "", stem)
      do {
        if ((getline line < (room_of(to) "/" stem ".cpp")) >= 0) return 1
      } while (sub(/_[^_]*$/, "", stem))
      return 0
    }
    function is_own_table(from, to, stem) {  # pointwise_plain.cpp: pointwise_cpu.h
      if (kind_of(from) != "references" || room_of(from) != room_of(to)) return 0
      stem = to
      if (!sub(/_cpu\.h$/, "", stem)) return 0
      return from == stem ".cpp" || index(from, stem "_") == 1
    }
    BEGIN {
      n = split(kinds, lines, "\n")
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
      here = kind_of(from)
      there = kind_of(to)
      room = room_of(to)
      if ((from " " to) in excepted || is_own_table(from, to) || is_own_room(from, to)) next
      if (((here, there) in allowed) || ((here, to) in allowed)) {
        if (room == "" || room == room_of(from)) next
        what = "it is inside of " room
      } else {
        if (!(here in known)) here = here " (a kind that arrows.sh does not know)"
        what = here " must not use " there
      }
      printf "%s:%s: includes %s: %s\n", from, $2, to, what
      wrong = 1
    }
    END { exit wrong }'
