#!/usr/bin/env bash
# What nvcc made of the kernels: registers, threads, local memory, width of accesses, bytes under
# way, instructions a KiB, of every default kernel, compared with the committed bench/sass/<arch>.txt.
# A row that got worse fails. docs/gpu_model.md says what the columns mean and how they are found.
#
#   tools/sass_gate.sh [--check]   compares (exit code 1: worse; 77: no nvcc, no disassembler, or the
#                                  table is another compiler's)
#   tools/sass_gate.sh --write     renews the table
#   --arch sm_90a|sm_80            sm_90a: the objects of the build tree; sm_80: compiled for this, 3
#                                  CPU minutes unless the compiler cache has them
#   --build DIR                    the build tree (build/ci)
#   --jobs N                       processors (all)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
mode=() arch=sm_90a build=build/ci jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --check) mode=() ;;
    --write) mode=(--write) ;;
    --arch) arch=${2:?--arch needs a name}; shift ;;
    --build) build=${2:?--build needs a folder}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "sass_gate: unknown option $1 (--help lists them)" >&2; exit 2 ;;
  esac
  shift
done
case $arch in
  sm_90a | sm_80) ;;
  *) echo "sass_gate: no table for $arch (there are sm_90a and sm_80)" >&2; exit 2 ;;
esac
skip() {
  echo "SKIPPED: $*"
  exit 77
}

command -v python3 >/dev/null || skip "no python3"
command -v c++filt >/dev/null || skip "no c++filt (Debian: binutils)"
tools=$(tools/sass/get.sh --where) ||
  skip "no nvdisasm and cuobjdump (tools/setup.sh --tests gets them)"
work=build/sass/$arch
mkdir -p "$work" build/sass/cache

# The build tree's cubins, out of the objects.
cubins_of_build() {
  local objects=$build/CMakeFiles/wt_kernels_cuda.dir object folder
  [ -d "$objects" ] || skip "$build has no objects of the cuda device (no nvcc?)"
  find "$work" -name '*.cubin' -delete
  while IFS= read -r object; do
    folder=$(realpath "$object")
    (cd "$work" && "$tools/cuobjdump" -xelf all "$folder" >/dev/null)
  done < <(find "$objects" -name '*.cu.o' | sort)
}
# Compiled from the sources with the build tree's own flags but another architecture.
cubins_compiled() {
  [ -f "$build/compile_commands.json" ] || skip "$build is not configured"
  grep -q '^WARPTAPE_NVCC:FILEPATH=/' "$build/CMakeCache.txt" || skip "no nvcc"
  python3 tools/sass/compile.py "$build/compile_commands.json" "$arch" "$work" "$jobs"
}
if [ "$arch" = sm_90a ]; then cubins_of_build; else cubins_compiled; fi
ls "$work"/*."$arch".cubin >/dev/null 2>&1 || skip "$build was built for other GPUs than $arch"

NVDISASM=$tools/nvdisasm python3 tools/sass/gate.py "${mode[@]}" --table "bench/sass/$arch.txt" \
  --arch "$arch" --exceptions bench/sass/stack.txt --cache build/sass/cache --jobs "$jobs" \
  "$work"/*."$arch".cubin
