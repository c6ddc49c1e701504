#!/usr/bin/env bash
# Installs the peers (PyTorch, libtorch from the same wheel, JAX) into the ignored bench/peers/.venv
# and builds the libtorch program there. Only gate.py and tools/generators/make_reference.py need them. torchvision
# and Pillow are for image_folder.py.
# PyPI's PyTorch for Linux is a CUDA build that does not load without NVIDIA's wheels: about 2.5 GB
# to fetch and 5 GB on disk. Where an index of CPU-only wheels is at hand,
# PEERS_PIP_ARGS="--index-url URL" makes it a fraction of that.
#
#   bench/peers/setup.sh      PYTHON=python3.12 names another Python
set -euo pipefail
case ${1:-} in
  '') ;;
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  *) echo "setup.sh: unknown option $1 (there is --help)" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
venv=$here/.venv
python=${PYTHON:-python3}

if [ ! -x "$venv/bin/python" ]; then
  "$python" -m venv "$venv" || {
    echo "setup.sh: cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2
    exit 8
  }
fi
pip=("$venv/bin/pip" --disable-pip-version-check --no-input)

# torch and torchvision go in alone, then what torch needs without triton: 1 GB that only compiles for
# GPUs.
torch=$(grep '^torch' "$here/requirements.txt")
# shellcheck disable=SC2086  # a list of options, split on purpose
"${pip[@]}" install --quiet --no-deps ${PEERS_PIP_ARGS:-} $torch
"$venv/bin/python" - > "$venv/torch-needs.txt" <<'PY'
from importlib import metadata
for need in metadata.requires("torch"):
    if not need.startswith(("triton", "optree", "opt-einsum", "pyyaml")):
        print(need)
PY
"${pip[@]}" install --quiet -r "$venv/torch-needs.txt"
grep -v '^torch' "$here/requirements.txt" > "$venv/others.txt"
"${pip[@]}" install --quiet -r "$venv/others.txt"

root=$("$venv/bin/python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
version=$("$venv/bin/python" -c 'import torch; print(torch.__version__)')
program=$venv/bin/peer_libtorch
if [ ! -x "$program" ] || [ "$here/peer_libtorch.cpp" -nt "$program" ] ||
   [ "$(cat "$program.version" 2>/dev/null)" != "$version" ]; then
  echo "building peer_libtorch against $version"
  # Only the CPU libraries: the CUDA ones would be loaded for nothing.
  "${CXX:-g++}" -std=c++20 -O2 -DNDEBUG -w "$here/peer_libtorch.cpp" -o "$program.tmp" \
    -isystem "$root/include" -isystem "$root/include/torch/csrc/api/include" \
    -L "$root/lib" -Wl,-rpath,"$root/lib" -Wl,--allow-shlib-undefined -ltorch_cpu -lc10
  mv "$program.tmp" "$program"
  echo "$version" > "$program.version"
fi
"$venv/bin/python" -c 'import torch, jax; print("peers: torch", torch.__version__, "jax",
  jax.__version__)'
du -sh "$venv" | cut -f1 | sed 's/^/disk: /'
