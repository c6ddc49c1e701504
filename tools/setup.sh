#!/usr/bin/env bash
# Installs what building warptape needs with the system's package manager, and says what it does.
# Idempotent: where nothing is missing it changes nothing and needs no network and no rights.
#
#   tools/setup.sh            what the library and the wt command need
#   tools/setup.sh --tests    also what tools/test.sh needs; where a CUDA toolkit is, NVIDIA's
#                             disassembler, as Python wheels in build/tools/sass
#   tools/setup.sh --nightly  also what only tools/nightly.sh needs
#   tools/setup.sh --browser  also Chromium (300 MB), which opens the HTML pages in a test
#   tools/setup.sh --course   also Sphinx and MyST, with which tools/course.sh builds the course
#   tools/setup.sh --check    only tells what is missing; exit code 1 if something needed is
#
# The CUDA toolkit is never installed, only told about: without it warptape has the devices cpu and
# simt.
set -euo pipefail

tests=0 nightly=0 browser=0 course=0 check=0
for arg in "$@"; do
  case $arg in
    --tests) tests=1 ;;
    --nightly) tests=1 nightly=1 ;;
    --browser) browser=1 ;;
    --course) course=1 ;;
    --check) check=1 ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "setup: unknown option $arg (there are --tests, --nightly, --browser, --course, --check, --help)" >&2; exit 2 ;;
  esac
done
program=setup
# shellcheck source=tools/checks.sh
source "$(dirname "$0")/checks.sh"
say() { echo "setup: $*"; }

# need KIND WHAT PACKAGE: KIND is command, header or module (of the system's Python); PACKAGE is Debian's and Ubuntu's name.
missing=() wanted=()
found() {
  case $1 in
    command) command -v "$2" >/dev/null 2>&1 ;;
    header)
      local dir
      for dir in ${CPATH//:/ } ${CMAKE_PREFIX_PATH:+${CMAKE_PREFIX_PATH//[:;]/\/include }/include} \
        /usr/local/include /usr/include "/usr/include/$(uname -m)-linux-gnu"; do
        [ -e "$dir/$2" ] && return 0
      done
      return 1 ;;
    module) /usr/bin/python3 -c "import $2" >/dev/null 2>&1 ;;
  esac
}
CPATH=${CPATH:-}
need() { found "$1" "$2" || missing+=("$3"); }  # without it nothing can be built
want() { found "$1" "$2" || wanted+=("$3"); }   # without it a part is left out

need command g++ g++
need command cmake cmake
need command ninja ninja-build
need header CLI/CLI.hpp libcli11-dev
want header openblas-pthread/cblas.h libopenblas-pthread-dev
want header lmdb.h liblmdb-dev
want header lzma.h liblzma-dev
want header spng.h libspng-dev
want header jpeglib.h libjpeg-dev
want header webp/decode.h libwebp-dev
want header zlib.h zlib1g-dev
want header mpi/mpi.h libopenmpi-dev
want command mpirun openmpi-bin
want command ccache ccache
if [ $tests = 1 ]; then
  need header catch2 catch2
  want command clang-format-14 clang-format-14
  want command valgrind valgrind
  want command gdb gdb
  want command ld.lld lld  # links test programs in a third of the time
  want command pkg-config pkg-config
  want command python3 python3
  want module clang.cindex python3-clang  # docs/reference is compared with the headers
  want command git git
  if command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
    want header zstd.h libzstd-dev  # the emulated cuda device unpacks fat binaries
  fi
fi
if [ $nightly = 1 ]; then
  want command gcovr gcovr
  want command clang++ clang
fi

if [ $browser = 1 ] && ! command -v chromium-browser >/dev/null 2>&1; then
  want command chromium chromium
fi
if [ $course = 1 ]; then
  want module sphinx python3-sphinx
  want module myst_parser python3-myst-parser
fi

# tools/sass_gate.sh reads machine code with NVIDIA's nvdisasm and cuobjdump. Python wheels of 5 MB have
# them; they go into build/tools/sass and nowhere else.
disassembler() {
  local here
  here=$(cd "$(dirname "$0")" && pwd)
  if "$here/sass/get.sh" --where >/dev/null; then
    say "disassembler for the gate on machine code: found"
  elif [ $check = 1 ]; then
    say "no nvdisasm and cuobjdump: tools/sass_gate.sh is skipped (tools/setup.sh --tests gets them)"
  else
    "$here/sass/get.sh" | while IFS= read -r line; do say "$line"; done
  fi
}

report_optional() {
  if command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
    say "CUDA toolkit found: the cuda device can be built"
    if [ $tests = 1 ]; then disassembler; fi
  else
    say "no CUDA toolkit (not needed): devices cpu and simt. For cuda install it from NVIDIA's"
    say "  repository, https://developer.nvidia.com/cuda-downloads, and configure again"
  fi
}

[ $check = 1 ] || new_enough  # before anything is installed
if [ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ]; then
  say "nothing is missing"
  report_optional
  new_enough
  exit
fi
[ ${#missing[@]} -eq 0 ] || say "needed and missing: ${missing[*]}"
[ ${#wanted[@]} -eq 0 ] || say "useful and missing: ${wanted[*]}"
if [ $check = 1 ]; then
  report_optional
  new_enough
  [ ${#missing[@]} -eq 0 ]
  exit $?
fi
if ! command -v apt-get >/dev/null 2>&1; then
  say "this system has no apt-get: install the packages above by your own package manager's names"
  [ ${#missing[@]} -eq 0 ]
  exit $?
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    say "not root and no sudo. As root: apt-get install ${missing[*]} ${wanted[*]}" >&2
    [ ${#missing[@]} -eq 0 ]
    exit $?
  fi
  root=(sudo)
fi
apt() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null
}
# install PACKAGE...: all or none. What apt-get said is in $said.
install() {
  say "running ${root[*]:+${root[*]} }apt-get install --no-install-recommends $*"
  said=$(apt install -y --no-install-recommends "$@" 2>&1)
}
say "running ${root[*]:+${root[*]} }apt-get update"
said=$(apt update 2>&1) || say "apt-get update failed, so with the old lists: $(cause "$said")"
if [ ${#missing[@]} -gt 0 ]; then
  install "${missing[@]}" || stop "could not install ${missing[*]}: $(cause "$said")"
fi
# Together, which is quicker; else one by one: what one distribution lacks must not cost the others.
if [ ${#wanted[@]} -gt 0 ] && ! install "${wanted[@]}"; then
  for package in "${wanted[@]}"; do
    install "$package" || say "going on without $package: $(cause "$said")"
  done
fi
report_optional
new_enough
