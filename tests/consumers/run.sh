#!/usr/bin/env bash
# run.sh BUILD_TREE: installs that tree into a scratch folder, looks at the headers there (headers.sh), and
# builds and runs small projects against it, by find_package and by pkg-config, grades a kernel and
# checks a lab there, and builds one that has the sources as a subdirectory. That one compiles the library again; its build folder stays in the tree,
# where the compiler cache knows it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "${1:?}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$tree" --prefix "$scratch/prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$here/headers.sh" "$scratch/prefix"
build() {  # PROJECT FOLDER OPTIONS...
  cmake -G Ninja -S "$here/$1" -B "$2/$1" "${@:3}" >"$scratch/log" 2>&1 &&
    cmake --build "$2/$1" >>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
  said=$("$2/$1/consumer")  # on a line of its own: echo would hide its exit code
  echo "$1: $said"
}
if [ -e "$scratch/prefix/share/warptape/grade/grade.conf" ]; then
  graded=$("$scratch/prefix/bin/wt" grade "$here/../grade/plain_add.cu" --op add --timeout 200)
  echo "wt grade: ${graded%%$'\n'*}"
  # With what was installed of the emulator.
  if [ -e "$scratch/prefix/share/warptape/grade/emulator" ]; then
    grep -q 'registers' <<<"$graded" || { echo "FAILED: nothing ran on the emulated device: $graded"; exit 1; }
  fi
  # A lab too: the hidden cases come from the installation, as does the library.
  labs=$here/../../labs
  (
    cd "$scratch"
    "$scratch/prefix/bin/wt" lab start 10 >log
    cp "$labs/10_tape/solution.cpp" lab10_tape/tape.cpp
    found=$("$scratch/prefix/bin/wt" lab check lab10_tape --timeout 200)
    echo "wt lab: ${found##*$'\n'}"
    if find "$scratch/prefix" -path '*/labs/*' \( -name 'solution.*' -o -name 'check.cpp' -o -path '*/wrong/*' \) | grep .; then
      echo "FAILED: solutions are installed" && exit 1
    fi
  )
else
  echo "wt grade: not built, not tried"
fi
build find_package "$scratch" -DCMAKE_PREFIX_PATH="$scratch/prefix"
# With the cpu alone, as tools/quickstart.sh builds it.
build subdirectory "$tree/consumers" -DWARPTAPE_WITH_CUDA=OFF -DWARPTAPE_WITH_SIMT=OFF \
  -DWARPTAPE_UNITY=ON
# Simt without tests, as tools/quickstart.sh --device simt has it: what configure says of it, nothing is built.
cmake -G Ninja -S "$here/../.." -B "$scratch/simt" -DWARPTAPE_WITH_CUDA=OFF -DWARPTAPE_BUILD_TESTS=OFF \
  >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$scratch/prefix/lib/pkgconfig:$scratch/prefix/lib/$(uname -m)-linux-gnu/pkgconfig
  # shellcheck disable=SC2046
  g++ "$here/main.cpp" $(pkg-config --cflags --static --libs warptape) -o "$scratch/consumer"
  said=$("$scratch/consumer")
  echo "pkg_config: $said"
else
  echo "pkg_config: not installed, not tried"
fi
