#!/usr/bin/env bash
# first_uses_test.sh WT_TESTS: the rows of all operators on simt with first uses on. Every variant that
# ranking chooses agrees with the plainest one, at small odd sizes, in every dtype: no tolerance calls
# a right kernel wrong.
set -u
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
WT_FIRST_USE=$here/first.tsv WT_OPTEST='--device simt' WT_SHARD=1/1 \
  "$1" "-#" "operators: values*" >"$here/out" 2>&1 || {
  tail -20 "$here/out"
  exit 1
}
grep '^off' "$here/first.tsv" && exit 1
contracts=$(grep '^agreed' "$here/first.tsv" | cut -f2 | sort -u | wc -l)
echo "first uses that agreed: $(grep -c '^agreed' "$here/first.tsv"), of $contracts contracts"
[ "$contracts" -ge 140 ]
