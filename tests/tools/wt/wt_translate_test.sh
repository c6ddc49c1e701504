#!/usr/bin/env bash
# `wt train translate` and `wt translate` from outside: a run over --data synthetic whose BLEU rises, lines
# from stdin and files, JSON, BLEU beside references, wt eval, and what is refused.
# Usage: wt_translate_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-translate-XXXXXX")
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
bad=0
fail() { echo "FAILED: $*"; bad=1; }
# refused CODE WORDS COMMAND...: wt ends with the code and says the words.
refused() {
  local code=$1 words=$2 got=0
  shift 2
  "$wt" "$@" >out 2>err </dev/null || got=$?
  [ $got = "$code" ] || fail "wt $*: exit code $got, expected $code"
  grep -qF -- "$words" err || fail "wt $* does not say '$words': $(cat err)"
}

small=(--set layers=1 --set channels=32 --set heads=2 --set feed_forward=32 --set vocabulary=320 --set dropout=0)
"$wt" train translate --data synthetic --out run "${small[@]}" --steps 300 --batch 32 --eval-every 100 \
  --lr 1e-2 --warmup 50 >out 2>err || { echo "FAILED: train: $(cat err)"; exit 1; }
grep -q '"bleu":[0-9]' out || fail "no bleu in $(cat out)"
grep -q '^BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:warptape-' err || fail "no line of BLEU: $(tail -5 err)"
grep -q '  BLEU [0-9]' err || fail "the progress does not say BLEU"
sed -n 's/.*"eval_loss".*"bleu":\([0-9.e+-]*\).*/\1/p' run/metrics.jsonl | tr '\n' ' ' >bleu
awk '{ exit !(NF == 4 && $1 < 5 && $4 > $1 + 10) }' bleu || fail "BLEU does not rise: $(cat bleu)"
grep -q 'Held-out BLEU' run/report.html || fail "the report draws no BLEU"
grep -q '"source=en' run/metrics.jsonl || fail "the header has no settings"

printf 'sa sb sc\n\nsd se\r\n' >lines
"$wt" translate run <lines >stdin.out 2>err || fail "from stdin: $(cat err)"
[ "$(wc -l <stdin.out)" = 3 ] || fail "three lines become $(cat stdin.out)"
[ -z "$(sed -n 2p stdin.out)" ] || fail "an empty line becomes $(sed -n 2p stdin.out)"
"$wt" translate run lines lines --batch 1 >files.out || fail "from files"
cat stdin.out stdin.out | cmp -s - files.out || fail "files are translated otherwise than stdin: $(cat files.out)"
"$wt" translate run lines --json >json || fail "--json"
[ "$(grep -c '^{"line":[0-9]*,"source":".*","translation":".*","score":.*,"cut":0}$' json)" = 3 ] || fail "JSON: $(cat json)"
"$wt" translate run lines --json --beam 1 | grep -q '"score":null' || fail "a greedy line has a score"
"$wt" translate run lines --references stdin.out --references stdin.out >/dev/null 2>err || fail "references: $(cat err)"
grep -q '^BLEU|nrefs:2|' err || fail "no BLEU of two references: $(cat err)"
head -c 400 /dev/zero | tr '\0' 'x' | sed 's/x/sa /g' >long
"$wt" translate run long >/dev/null 2>err || fail "a long line: $(cat err)"
grep -q '^1 of 1 lines are longer .* line 1, by [0-9]* tokens$' err || fail "a cut is not said: $(cat err)"
"$wt" eval run --json >out || fail "wt eval"
grep -q '"bleu":[0-9.]*,"bleu_text":"BLEU|nrefs:1|' out || fail "wt eval: $(cat out)"

refused 3 "there are 3 lines to translate, and of references long has 1" translate run lines --references long
refused 3 "nowhere" translate run nowhere
printf 'a\xffb\n' >bytes
refused 3 "not UTF-8" translate run bytes
"$wt" translate run <bytes >out 2>err && fail "bytes from stdin"
grep -q 'stdin: line 1 is not UTF-8' err || fail "bytes from stdin: $(cat err)"
refused 2 "--beam" translate run lines --beam 0
refused 2 "up to 61" translate run lines --max-length 62
refused 2 "is a model of translate, not of text" generate run
refused 2 "is a model of translate, not of images" predict run lines
refused 2 "Try --data FOLDER with train.en" train translate --steps 1
refused 3 "there is no train.en, train.de, val.en, val.de" train translate --data . --steps 1
refused 2 "no multiple of heads" train translate --data synthetic --set heads=3 --steps 1
[ $bad = 0 ] && echo "BLEU $(cat bleu)"
exit $bad
