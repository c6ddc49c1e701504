#!/usr/bin/env bash
# example_test.sh PROGRAM BOUND [OPTION...]: an example as a user starts it, in an empty folder: it ends
# well, and the number at the end of its last line, a loss or an error, is below the bound.
set -u
program=$(realpath "${1:?}") bound=${2:?}
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
TMPDIR=$scratch "$program" "$@" >out 2>err || { echo "FAILED: exit code $?"; cat out err; exit 1; }
cat out
result=$(tail -n 1 out | grep -oE '[-+0-9.e]+$')
awk -v x="${result:-none}" -v most="$bound" 'BEGIN { exit !(x ~ /^[0-9.e+-]+$/ && x + 0 >= 0 && x + 0 < most + 0) }' ||
  { echo "FAILED: the last line ends in '${result:-no number}', wanted below $bound"; exit 1; }
rm out err
[ -z "$(ls)" ] || { echo "FAILED: left behind: $(ls)"; exit 1; }
