#!/usr/bin/env bash
# No folder of this tree is too full and "where is X?" has its answers (rooms.sh), and the check sees
# a tree where it is otherwise.
set -u
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
"$here/rooms.sh" || bad=1

# expect RC TEXT: what rooms.sh says of $scratch/tree.
expect() {
  local said rc
  said=$("$here/rooms.sh" "$scratch/tree")
  rc=$?
  if [ $rc != "$1" ] || [ "$said" != "$2" ]; then
    echo "FAILED: exit code $rc, said: $said, wanted: $1, $2"
    bad=1
  fi
}
tree=$scratch/tree
mkdir -p "$tree/tests/support" "$tree/core" "$tree/kernels/softmax" "$tree/autograd/ops"
echo '__global__' >"$tree/kernels/softmax/softmax.cu"
for ((i = 0; i < 40; ++i)); do echo "kernel $i|kernels/softmax/softmax.cu|__GLOBAL__"; done \
  >"$tree/tests/support/where_is.txt"
for ((i = 0; i < 60; ++i)); do
  echo '#pragma once' >"$tree/core/public$i.h"  # a table of contents may be long
  : >"$tree/autograd/ops/op$i.cpp"
done
for ((i = 0; i < 45; ++i)); do printf '// Internal.\n#pragma once\n' >"$tree/core/inner$i.h"; done
expect 0 ''
: >"$tree/core/one_more.cpp"
expect 1 'core has 46 files, at most 45: a room by subject is missing'
rm "$tree/core/one_more.cpp"
: >"$tree/core/so what"
expect 1 'core/so what is no name for a file: letters, digits and _ . + - (did a script redirect into it?)
core has 46 files, at most 45: a room by subject is missing'
rm "$tree/core/so what"
echo '__device__' >"$tree/kernels/softmax/softmax.cu"
sed -i '2,$d' "$tree/tests/support/where_is.txt"
expect 1 'where is kernel 0? kernels/softmax/softmax.cu does not have: __GLOBAL__
tests/support/where_is.txt: 1 questions, at least 40'
rm "$tree/kernels/softmax/softmax.cu"
expect 1 'where is kernel 0? Not in kernels/softmax/softmax.cu, which is gone
tests/support/where_is.txt: 1 questions, at least 40'
exit $bad
