#!/usr/bin/env bash
# wt bench generate: a line a precision with what its reader compares, sizes that are known, the same
# text from weights that it saved, errors for what cannot be. Usage: wt_bench_generate_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
field() { sed -n 's/.*"'"$2"'":"\{0,1\}\([^",}]*\).*/\1/p' <<<"$1"; }

short=(bench generate --prompt 5 --tokens 3 --windows 1)
lines=$("$wt" "${short[@]}" --batch 2 --precision bf16 --precision f32 --save "$scratch/w.safetensors" --json) ||
  fail "exit code $?"
[ "$(wc -l <<<"$lines")" = 2 ] || fail "not two lines: $lines"
parameters=124439808
while read -r line; do
  case $(field "$line" dtype) in f32) item=4 ;; bf16) item=2 ;; *) fail "no dtype: $line" ;; esac
  [ "$(field "$line" weight_bytes)" = $((item * parameters)) ] || fail "weight_bytes: $line"
  [ "$(field "$line" cache_bytes)" = $((2 * 12 * 2 * (5 + 3) * 768 * item)) ] || fail "cache_bytes: $line"
  [ "$(field "$line" peak_bytes)" -gt $((item * parameters)) ] || fail "peak_bytes: $line"
  [ "$(field "$line" new_tokens | wc -w)" = 6 ] || fail "not three tokens in two rows: $line"
  awk -v us="$(field "$line" median_us)" -v rate="$(field "$line" tokens_per_s)" \
    'BEGIN {exit !(us * rate > 1.99e6 && us * rate < 2.01e6)}' || fail "tokens_per_s is not two a step: $line"
  awk -v prompt="$(field "$line" prompt_us)" 'BEGIN {exit !(prompt > 0)}' || fail "prompt_us: $line"
done <<<"$lines"
# Other numbers would write another text; one row writes what it writes beside another.
wanted=$(field "$(grep '"dtype":"f32"' <<<"$lines")" new_tokens)
again=$("$wt" "${short[@]}" --weights "$scratch/w.safetensors" --json) || fail "--weights: exit code $?"
[[ "$wanted" == "$(field "$again" new_tokens) "* ]] || fail "loaded: $(field "$again" new_tokens), made: $wanted"
"$wt" "${short[@]}" >"$scratch/table" || fail "a table: exit code $?"
grep -q '^gpt2 .*1x5+3' "$scratch/table" || fail "the table has no row: $(cat "$scratch/table")"

refuses() {  # EXIT_CODE WORD ARGS...
  local code=$1 word=$2 said rc
  shift 2
  said=$("$wt" bench generate "$@" 2>&1)
  rc=$?
  [ $rc = "$code" ] || fail "$*: exit code $rc, not $code: $said"
  grep -q -- "$word" <<<"$said" || fail "$* says: $said"
}
refuses 2 gpt2_medium --model resnet18
refuses 2 tokens --tokens 1
refuses 2 precision --precision f64
refuses 2 "context of 1024" --prompt 1020 --tokens 10
refuses 3 none.safetensors --weights "$scratch/none.safetensors"
exit $bad
