#!/usr/bin/env bash
# shared_symbols_test.sh SIMT_OBJECTS CUDA_OBJECTS: folders of object files. One .cu is compiled by g++ for simt and
# by nvcc for cuda, and both land in one program: a function or variable outside the per-device
# inline namespace would be one symbol with two meanings, of which the linker keeps either.
set -u
symbols() {  # defined, visible to the linker; not the standard library's and the compiler's own
  find "$1" -name '*.o' -exec nm --defined-only {} + 2>/dev/null |
    awk '$2 ~ /^[A-Zuvw]$/ {print $3}' | grep -vE '^(_ZNS[a-z]|_ZNK?S|_ZS|_ZT[ISV](N?S|[a-z])|DW\.ref)' | sort -u
}
for folder in "${1:?}" "${2:?}"; do
  if [ -z "$(symbols "$folder" | head -1)" ]; then
    echo "no object files in $folder: is the build finished?"
    exit 77
  fi
done
both=$(comm -12 <(symbols "$1") <(symbols "$2"))
[ -z "$both" ] && exit 0
echo "compiled for simt and for cuda under one name:"
c++filt <<<"$both" | sed 's/^/  /'
exit 1
