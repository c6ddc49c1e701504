#!/usr/bin/env bash
# get.sh: NVIDIA's disassembler where a CUDA toolkit is and the programs are not: two Python wheels
# of 5 MB in the ignored build/tools/sass. Without network it says what to do and fails nothing.
# get.sh --where: prints the folder that holds nvdisasm and cuobjdump; exit code 1 if there is none.
set -uo pipefail
case ${1:-} in
  '' | --where) ;;
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  *) echo "get: unknown option $1 (there are --where, --help)" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$root/build/tools/sass
# A newer disassembler reads the cubins of older compilers, not the other way round.
packages=(nvidia-cuda-nvdisasm==13.5.37 nvidia-cuda-cuobjdump==13.5.37)

where() {
  local folder
  for folder in "$venv"/lib/python3*/site-packages/nvidia/cu*/bin \
    "$(dirname "$(command -v nvdisasm || echo /none/x)")" /usr/local/cuda/bin; do
    if [ -x "$folder/nvdisasm" ] && [ -x "$folder/cuobjdump" ]; then
      echo "$folder"
      return 0
    fi
  done
  return 1
}
if [ "${1:-}" = --where ]; then
  where
  exit
fi
if where >/dev/null; then
  exit 0
fi
if { [ -x "$venv/bin/python" ] || python3 -m venv "$venv" >/dev/null 2>&1; } &&
  "$venv/bin/pip" --disable-pip-version-check --no-input install --quiet --retries 1 \
    "${packages[@]}" >"$venv/pip.log" 2>&1; then
  echo "NVIDIA's disassembler is in build/tools/sass: tools/sass_gate.sh can read machine code"
else
  echo "no disassembler, so tools/sass_gate.sh is skipped. To have it:"
  echo "  python3 -m venv build/tools/sass (Debian: python3-venv) and then"
  echo "  build/tools/sass/bin/pip install ${packages[*]}"
fi
exit 0
