#!/usr/bin/env bash
# shared_symbols_test.sh SIMT_OBJECTS CUDA_OBJECTS: folders of object files. One .cu is compiled by g++ for simt and
# by nvcc for cuda, and both land in one program: a function or variable outside the per-device
# inline namespace would be one symbol with two meanings, of which the linker keeps either.
set -u
# Defined and visible to the linker; not std's, and no constants: a table in a core header is the
# same for both. After the address: l, g, u or !, then w for weak.
symbols() {
  find "$1" -name '*.o' -exec objdump -t {} + 2>/dev/null |
    awk '/^[0-9a-f]{16} / && substr($0, 18, 2) ~ /[gu!w]/ && !/[*]UND[*]|[*]ABS[*]|[.]rodata|[.]data[.]rel[.]ro/ {print $NF}' |
    grep -vE '^(_ZNS[a-z]|_ZNK?S|_ZS|_ZT[ISV](N?S|[a-z])|DW[.]ref)' | sort -u
}
for folder in "${1:?}" "${2:?}"; do
  if [ -z "$(find "$folder" -name '*.o' 2>/dev/null | head -1)" ]; then
    echo "no object files in $folder: is the build finished?"
    exit 77
  fi
done
both=$(comm -12 <(symbols "$1") <(symbols "$2"))
[ -z "$both" ] && exit 0
echo "compiled for simt and for cuda under one name:"
c++filt <<<"$both" | sed 's/^/  /'
exit 1
