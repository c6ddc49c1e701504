#!/usr/bin/env bash
# wt tune on simt: every variant is proved, the file is text that `run` chooses by, a stopped or
# damaged one is dealt with. Planted variants are in tuner_test.cpp.
#
#   wt_tune_test.sh WT
set -euo pipefail
wt=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() {
  echo "FAILED: $*"
  [ ! -s "$here/err" ] || cat "$here/err"
  exit 1
}
expect() {  # CODE TEXT ARGUMENTS...: `wt` ends with this code and says this
  local want=$1 text=$2 code=0
  shift 2
  "$wt" "$@" >"$here/out" 2>"$here/err" || code=$?
  [ "$code" -eq "$want" ] || fail "wt $*: exit code $code, not $want"
  grep -qF -- "$text" "$here/out" "$here/err" || fail "wt $*: no \"$text\""
}

file=$here/folder/tune.tsv
expect 0 "0 variants off" tune --device simt --quick --output "$file"
head -n 1 "$file" | grep -qx "warptape tune 1" || fail "another first line"
grep -qx "state	complete" "$file" || fail "not complete"
rows=$(tail -n 1 "$file")
[ "$rows" = "end	$(($(wc -l <"$file") - 10))" ] || fail "$rows"
for kernel in matmul softmax_forward conv_forward attention_backward sum; do
  grep -q "^$kernel	f32	small 0	.*	naive	right	" "$file" || fail "no row of $kernel"
done
grep -q "<title>wt tune</title>" "${file%.tsv}.html" || fail "no page"

# One kernel again: the others' rows stay.
expect 0 "results right" tune --device simt --quick --op softmax --output "$file"
[ "$(tail -n 1 "$file")" = "$rows" ] || fail "rows were lost"
# What was stopped goes on: nothing but the missing rows is made.
grep -v "^sum	" "$file" | sed "s/^state	complete/state	partial/; s/^end	.*/end	$(
  grep -vc "^sum	" "$file" | awk '{print $1 - 10}')/" >"$here/partial"
cp "$here/partial" "$file"
expect 0 "results right" tune --device simt --quick --output "$file"
[ "$(tail -n 1 "$file")" = "$rows" ] || fail "a stopped run did not go on"

# A variant that is off is not run, and a file that cannot be used is named.
sed 's/\(^matmul	.*\)	right	/\1	wrong	/' "$file" >"$here/off.tsv"
printf 'To be, or not to be, that is the question: %.0s' {1..60} >"$here/text"
tiny="--data $here/text --steps 1 --batch 2 --quiet --set layers=1 --set channels=16 --set heads=2"
WT_TUNE=$file expect 0 "loss" train charlm $tiny --device simt --out "$here/a"
WT_TUNE=$here/off.tsv expect 2 "found every variant on simt wrong" train charlm $tiny --device simt
WT_TUNE=$here/text expect 2 "is no tune file" train charlm $tiny --device simt
WT_TUNE=off expect 0 "loss" train charlm $tiny --device simt --out "$here/b"
printf 'junk\n' >"$file"
expect 0 "written anew" tune --device simt --quick --op sum --output "$file"

# Commands that want results take what is cheap on simt, by the file that ships; what a GPU would take stays with
# WT_TUNE=off, with WT_KERNEL, and with those that count.
takes() {  # VARIANT ARGUMENTS...: which cross_entropy_forward the trace of it has
  local want=$1
  shift
  rm -rf "$here/trace"
  "$wt" "$@" --data "$here/text" --batch 2 --quiet --set layers=1 --set channels=16 --set heads=2 --device simt \
    --out "$here/trace" >"$here/out" 2>"$here/err" || fail "wt $*"
  grep -q "cross_entropy_forward:$want " "$here/trace/trace.json" || fail "wt $*: no cross_entropy_forward:$want"
}
grep -q "^cross_entropy_forward	f32	.*	naive	right	" "${0%/*}/../../../kernels/dispatch/simt_tune.tsv" ||
  fail "another ranking ships: choose another kernel here"
takes naive train charlm --steps 3 --profile 1
WT_TUNE=off takes warp train charlm --steps 3 --profile 1
WT_KERNEL=cross_entropy_forward:block takes block train charlm --steps 3 --profile 1
takes warp profile charlm --steps 1

expect 0 "results right" tune --device simt --quick --op conv2d --output "$here/conv.tsv"
grep -q conv_backward_weight "$here/conv.tsv" || fail "--op conv2d: not the kernels that it runs"
# Nothing is begun after --for; called again it goes on to the same rows, each of which is in --json.
limited="tune --device simt --small --op softmax --op sum --op matmul --output $here/limited.tsv --json $here/rows.jsonl"
expect 3 "LEFT: " $limited --for 0.000001
grep -q "^state	partial" "$here/limited.tsv" || fail "called complete"
expect 3 "LEFT: " $limited --for 0.3
first=$(sed -n 10p "$here/limited.tsv" | cut -f1)
[ "$first" = matmul ] || fail "begins with $first"
expect 0 "0 variants off" $limited
grep -q "^state	complete" "$here/limited.tsv" || fail "not complete"
[ "$(grep -c '"check":"right"' "$here/rows.jsonl")" -eq "$(grep -c '	right	' "$here/limited.tsv")" ] ||
  fail "rows are missing in --json"
expect 2 "did you mean" tune --device simt --op softmax_forwrd --output "$here/x"
expect 2 "--output FILE is needed on simt" tune --device simt
expect 2 "the cpu is what the others are held against" tune --device cpu
printf x >"$here/plain"
expect 8 "plain" tune --device simt --op sum --output "$here/plain/x.tsv"
echo "wt tune: passed"
