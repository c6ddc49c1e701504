#!/usr/bin/env bash
# ptxas does algebra on floating point that PTX writes out, and leaves undone what one takes for granted on integers.
#
# Expected: the one liberty with rounding is the contraction of mul and add into fma. Instructions that say approx and
# ftz stay, as two roundings stay two; an unsigned division by the constant 8 becomes a shift.
# Happens: (1) rcp.approx.ftz of rcp.approx.ftz is removed altogether, a load and a store are left. By the description
# of the instruction a subnormal x gives 1/x = infinity and then 0; what runs gives x. (2) mul.f32 by 0.5 and then by
# 4 is one instruction, FMUL.M4, though the first of them may round (a subnormal); mul.rn.f32 stays two. (3) div.u32
# by 8 calls the general division inline, with a float reciprocal (MUFU.RCP) of the constant and two corrections. Such
# rewriting is the front end's work: nvcc does it before PTX, and PTX from another generator goes without.
# Seen with ptxas 13.4.92 for sm_80, sm_90 and sm_100, 2026-11.
# Matters: who predicts results of PTX bit by bit (an emulator, a test of a kernel against a model of it) cannot read
# PTX alone, and who generates PTX has to write shifts and masks himself, say for an index split by a constant.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
  nvidia-cuda-nvcc==13.4.92 nvidia-cuda-nvdisasm==13.4.92
bin=$(dirname "$(find "$work/venv" -name ptxas -type f | head -n 1)")
"$bin/ptxas" --version | tail -n 2

kernel() {  # name, register type, lines from %a to %c
  printf '.visible .entry %s(.param .u64 p) {\n  .reg .u64 %%p; .reg .%s %%a, %%b, %%c;\n' "$1" "$2"
  printf '  ld.param.u64 %%p, [p];\n  ld.global.%s %%a, [%%p];\n  %s\n' "$2" "$3"
  printf '  st.global.%s [%%p], %%c;\n  ret;\n}\n' "$2"
}

fail=0
expect() {  # name, mnemonic, how often
  local n
  n=$(awk -v section=".text.$1:" '/^\.text\./ { on = ($1 == section) } on' "$work/k.sass" | grep -c "[ ]$2[ .]" || true)
  printf '  %-9s %-7s %s\n' "$1" "$2" "$n"
  if [ "$n" != "$3" ]; then
    echo "changed: $1 for $arch has $n $2, not $3"
    fail=1
  fi
}

for arch in sm_80 sm_90 sm_100; do
  {
    printf '.version 8.6\n.target %s\n.address_size 64\n' "$arch"
    kernel once f32 'rcp.approx.ftz.f32 %c, %a;'
    kernel twice f32 'rcp.approx.ftz.f32 %b, %a; rcp.approx.ftz.f32 %c, %b;'
    kernel scale f32 'mul.f32 %b, %a, 0f3F000000; mul.f32 %c, %b, 0f40800000;'
    kernel scale_rn f32 'mul.rn.f32 %b, %a, 0f3F000000; mul.rn.f32 %c, %b, 0f40800000;'
    kernel eighth u32 'div.u32 %c, %a, 8;'
  } >"$work/k.ptx"
  [ "$arch" = sm_80 ] && cat "$work/k.ptx"
  "$bin/ptxas" -arch="$arch" "$work/k.ptx" -o "$work/k.cubin"
  "$bin/nvdisasm" -c "$work/k.cubin" >"$work/k.sass"
  echo "$arch: kernel, machine instruction, how often"
  expect once MUFU 1
  expect twice MUFU 0
  expect twice FADD 0
  expect scale FMUL 1
  expect scale_rn FMUL 2
  expect eighth MUFU 1
done
[ "$fail" = 0 ] || exit 1
echo "as described: a pair of approximate reciprocals is gone, two products are one, a shift is a division"
