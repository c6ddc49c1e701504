#!/usr/bin/env bash
# moved_operands.sh COMPILER LIBRARY PACKAGE_FILE INCLUDE_DIR...: compiles moved_operands.cpp by
# COMPILER, links it with LIBRARY (and what PACKAGE_FILE says that takes) and runs it. Exit code 77:
# the compiler is not installed.
set -euo pipefail
compiler=$1 library=$2 package=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
command -v "$compiler" >/dev/null || { echo "SKIPPED: $compiler is not installed"; exit 77; }
[ -e "$library" ] || { echo "FAILED: $library is not built"; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
include=()
for folder in "$@"; do include+=("-I$folder"); done
# shellcheck disable=SC2046  # a list of options
"$compiler" -std=c++20 -O0 -w "${include[@]}" "$here/moved_operands.cpp" "$library" \
  "-Wl,-rpath,$(dirname "$library")" $(sed -n 's/^Libs.private: *//p' "$package") \
  -pthread -o "$dir/moved_operands"
"$dir/moved_operands"
