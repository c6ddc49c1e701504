#!/usr/bin/env bash
# run.sh BUILD_TREE [--all]: installs that tree into a scratch folder and builds small projects against
# it, by find_package and by pkg-config; with the sources as a subdirectory one is configured, and
# built with --all only, for that compiles the library again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "${1:?}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$tree" --prefix "$scratch/prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
build() {
  cmake -G Ninja -S "$here/$1" -B "$scratch/$1" "${@:2}" >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/$1" >>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
  said=$("$scratch/$1/consumer")  # on a line of its own: echo would hide its exit code
  echo "$1: $said"
}
build find_package -DCMAKE_PREFIX_PATH="$scratch/prefix"
if [ "${2:-}" = --all ]; then
  build subdirectory -DWARPTAPE_WITH_CUDA=OFF
else
  cmake -G Ninja -S "$here/subdirectory" -B "$scratch/subdirectory" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
  echo "subdirectory: configured"
fi
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$scratch/prefix/lib/pkgconfig:$scratch/prefix/lib/$(uname -m)-linux-gnu/pkgconfig
  # shellcheck disable=SC2046
  g++ "$here/main.cpp" $(pkg-config --cflags --static --libs warptape) -o "$scratch/consumer"
  said=$("$scratch/consumer")
  echo "pkg_config: $said"
else
  echo "pkg_config: not installed, not tried"
fi
