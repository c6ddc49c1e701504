#!/usr/bin/env bash
# headers.sh PREFIX: the headers that are installed there. None lies in a room of the library's own or
# calls itself internal, all that they include is there, and they compile without the sources beside
# them; that each does so alone is the build's target all_verify_interface_header_sets.
set -u
root=${1:?}/include
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
fail() { echo "FAILED headers: $*"; bad=1; }

[ -d "$root/warptape" ] || { echo "FAILED headers: no $root/warptape"; exit 1; }
mapfile -t headers < <(cd "$root" && find warptape -type f | sort)
[ ${#headers[@]} -gt 50 ] || fail "only ${#headers[@]} of them in $root"
for header in "${headers[@]}"; do
  case $header in
    warptape/kernels/cpu/* | warptape/kernels/cuda/* | warptape/kernels/device/* | \
      warptape/kernels/simt/* | */internal/*) fail "$header is installed" ;;
    *.h) ;;
    *) fail "$header is no header" ;;
  esac
  sed '/^#pragma once/,$d' "$root/$header" | grep -qE 'Internal([^A-Za-z]|$)' && fail "$header calls itself internal"
  while read -r included; do
    [ -f "$root/$included" ] || fail "$header includes $included, which is not installed"
  done < <(sed -nE 's/^#include "(warptape\/[^"]+)".*/\1/p' "$root/$header")
done
while read -r wanted; do
  [ -f "$root/$wanted" ] || fail "$wanted is not installed"
done < <(grep -v '^#' "$(dirname "$0")/public_headers.txt"; echo warptape/warptape.h)
printf '#include "%s"\n' "${headers[@]}" >"$scratch/all.cpp"
"${CXX:-g++}" -std=c++20 -Wall -Wextra -fsyntax-only -I"$root" "$scratch/all.cpp" || fail "they do not compile"
[ $bad = 0 ] && echo "headers: ${#headers[@]} are installed"
exit $bad
