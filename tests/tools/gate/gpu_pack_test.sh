#!/usr/bin/env bash
# gpu_pack_test.sh: the pack of tools/gpu_gate.sh, built as docs/gpu_gate.md says: its size, what it is made of,
# and how long unpacking and starting take. Compiles nothing that the compiler cache has from preset ci.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

if ! cmake --preset gate -DWARPTAPE_WERROR=ON >"$dir/configure" 2>&1; then
  grep -q 'WARPTAPE_WITH_CUDA=ON, but it was not found' "$dir/configure" || { cat "$dir/configure"; exit 1; }
  echo "SKIPPED: no CUDA toolkit"
  exit 77
fi
cmake --build build/gate --parallel "$(nproc)" --target wt_gpu || fail "the build"
export WT_BUILD_DIR=$PWD/build/gate
tools/gpu_gate.sh --pack "$dir/gate.tar.xz" || fail "--pack"
bytes=$(stat -c %s "$dir/gate.tar.xz")
[ "$bytes" -le $((36 << 20)) ] || fail "the pack has $bytes bytes, more than 36 MiB"
unset WT_BUILD_DIR

# Without a GPU it ends in words, and with one it would now begin.
begin=$(date +%s%N)
WT_GATE_SECONDS=30 tools/gpu_gate.sh "$dir/out" --with "$dir/gate.tar.xz" ceilings --device cuda:0 >"$dir/said" 2>&1
code=$?
took=$((($(date +%s%N) - begin) / 1000000))
cat "$dir/said"
if command -v nvidia-smi >/dev/null; then
  echo "this machine has a GPU: its start is not timed"
else
  [ $code -eq 0 ] || fail "exit code $code without a GPU"
  grep -q "SKIPPED: NotAvailable: cuda:0: " "$dir/out/gpu_gate.md" || fail "the page does not say why"
  [ "$took" -lt 10000 ] || fail "unpacking and starting took $took ms"
fi
files=$(cd "$dir/gate.unpacked" && find . -type f ! -name .of | sort | tr '\n' ' ')
[ "$files" = "./gpu_tests.txt ./wt_gpu " ] || fail "packed: $files"

# What it needs is there wherever there are a C and a C++ library, and CUDA.
odd=$(readelf -d "$dir/gate.unpacked/wt_gpu" | grep -oP 'NEEDED.*\[\K[^]]+' |
  grep -vE '^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-x86-64|libcudart)\.so')
[ -z "$odd" ] || fail "wt_gpu needs $odd"

# Something else that calls itself a pack is refused, and nothing of it is unpacked.
(cd "$dir" && mkdir evil && echo x >evil/wt_gpu && tar -cJf evil.tar.xz --transform 's,evil,../evil,' evil/wt_gpu 2>/dev/null)
tools/gpu_gate.sh "$dir/out2" --with "$dir/evil.tar.xz" >"$dir/said" 2>&1
[ $? -eq 2 ] || fail "a path out of the pack: not refused"
grep -q "is no pack" "$dir/said" || fail "a path out of the pack: no words"
echo half >"$dir/half.tar.xz"
tools/gpu_gate.sh "$dir/out2" --with "$dir/half.tar.xz" >"$dir/said" 2>&1
[ $? -eq 2 ] || fail "half a pack: not refused"
tools/gpu_gate.sh "$dir/out2" --with "$dir/nothing.tar.xz" >"$dir/said" 2>&1
[ $? -eq 2 ] || fail "no pack: not refused"
echo "gpu_pack: $bytes bytes, unpacked and begun in $took ms"
