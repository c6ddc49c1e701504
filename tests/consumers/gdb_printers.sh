#!/usr/bin/env bash
# gdb_printers.sh COMPILER LIBRARY PACKAGE_FILE INCLUDE_DIR...: a program with the library in it,
# under gdb: the printers are found in the program, and show what is there. Exit code 77: no gdb.
set -euo pipefail
compiler=$1 library=$2 package=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
command -v gdb >/dev/null || { echo "SKIPPED: gdb is not installed"; exit 77; }
[ -e "$library" ] || { echo "FAILED: $library is not built"; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
include=()
for folder in "$@"; do include+=("-I$folder"); done
# shellcheck disable=SC2046  # a list of options
"$compiler" -std=c++20 -O0 -g -w "${include[@]}" "$here/gdb_printed.cpp" "$library" \
  "-Wl,-rpath,$(dirname "$library")" $(sed -n 's/^Libs.private: *//p' "$package") \
  -pthread -o "$dir/printed"
line=$(grep -n 'stop here' "$here/gdb_printed.cpp" | cut -d: -f1)
show() {  # show TRUSTED names...: what gdb prints of them
  local trusted=$1 name
  shift
  local commands=(-ex "break gdb_printed.cpp:$line" -ex run)
  for name in "$@"; do commands+=(-ex "print $name"); done
  gdb --batch -nx -iex "set auto-load safe-path $trusted" -iex "set debuginfod enabled off" "${commands[@]}" \
    -ex "set print elements 4" -ex "print x" "$dir/printed" 2>&1
}
names=(none x columns halves brains counts truth scalar empty_one meta soft shape device net.gain reference)
show "$dir" "${names[@]}" >"$dir/out" || { cat "$dir/out"; exit 1; }
failed=0
expect() {
  grep -qF -- "$1" "$dir/out" || { echo "FAILED: not printed: $1"; failed=1; }
}
expect '$1 = undefined tensor'
expect '$2 = tensor [2, 3] f32 cpu = {{1, 2.5, 3}, {4, 5, 6}}'
expect '$3 = tensor [3, 2] f32 cpu = {{1, 4}, {2.5, 5}, {3, 6}}'
expect '$4 = tensor [2, 3] f16 cpu = {{1, 2.5, 3}, {4, 5, 6}}'
expect '$5 = tensor [2, 3] bf16 cpu = {{1, 2.5, 3}, {4, 5, 6}}'
expect '$6 = tensor [2] i64 cpu = {7, -8}'
expect '$7 = tensor [2] bool cpu = {true, false}'
expect '$8 = tensor [] f64 cpu requires_grad = 1.5'
expect '$9 = tensor [0, 3] f32 cpu = {}'
expect '$10 = tensor [4] f32 meta'
expect '$11 = tensor [2, 3] f32 simt = {{1, 2.5, 3}, {4, 5, 6}}'
expect '$12 = [2, 3]'
expect '$13 = cuda:1'
expect '$14 = gain: tensor [2] f32 cpu requires_grad = {0.5, 2}'
expect 'tensor [2, 3] f32 cpu = {{1, 2.5, 3}, {4, 5, 6}}'
expect '$16 = tensor [2, 3] f32 cpu = {{1, 2.5, 3}, {4, ...}}'
# A program that gdb was not told to trust: gdb itself says how to.
mv "$dir/out" "$dir/trusted"
show /nowhere x >"$dir/out" || true
expect 'add-auto-load-safe-path'
[ $failed = 0 ] || { echo "gdb said:"; cat "$dir/trusted" "$dir/out"; exit 1; }
echo "gdb shows ${#names[@]} values as it should"
