#!/usr/bin/env bash
# What is around a run may fail without the run: closed standard descriptors, readers that go away, a
# disk that is full, signals that come late. Usage: wt_faults_test.sh PATH_OF_WT PART
set -uo pipefail
wt=$1
part=$2
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-faults-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
# metrics without what depends on time and memory
history() { sed -E 's/,"items_per_second":[^,}]*,"bytes":[^,}]*,"slowest_ms":[^,}]*//' "$1"; }
tiny="--set layers=1 --set heads=2 --set channels=16 --set context=16 --set dropout=0.1"
run="train charlm $tiny --steps 12 --batch 4 --eval-every 6 --save-every 4 --log-every 1"
last=ckpt/step-000012.safetensors

whole() {  # the run that nothing happens to
  seq 3000 | tr '\n' ' ' >"$here/text"
  run+=" --data $here/text"
  "$wt" $run --quiet --out "$here/whole" >"$here/out" 2>"$here/err" || fail "a run: $(cat "$here/err")"
}

# same NAME FOLDER: the folder holds what that run left, and can be gone on with
same() {
  cmp "$here/whole/$last" "$2/$last" || fail "$1: the last checkpoint differs"
  cmp "$here/whole/ckpt/best.safetensors" "$2/ckpt/best.safetensors" || fail "$1: the best one differs"
  diff <(history "$here/whole/metrics.jsonl") <(history "$2/metrics.jsonl") || fail "$1: metrics.jsonl"
  [ "$(cat "$here"/whole/events.* | wc -c)" -eq "$(cat "$2"/events.* | wc -c)" ] ||
    fail "$1: the event file has $(cat "$2"/events.* | wc -c) bytes"
  grep -q "^process [0-9]* on .*, started " "$2/LOCK" && [ "$(wc -l <"$2/LOCK")" -eq 1 ] ||
    fail "$1: LOCK holds $(cat "$2/LOCK")"
  "$wt" $run --resume auto --out "$2" >/dev/null 2>"$here/err" || fail "$1, resumed: $(cat "$here/err")"
}

descriptors() {  # every set of closed ones: no file gets their numbers
  local code closed
  whole
  for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
    rm -rf "$here/run"
    # A group of its own, so that what is not closed is a file.
    eval "{ \"\$wt\" \$run --out \"\$here/run\" $closed; } >\"\$here/out\" 2>\"\$here/err\" </dev/null"
    code=$?
    case $closed in
      *'>&-'*) case "$closed" in
        *' >&-'* | '>&-'*)  # the summary is lost, which is said where that is possible
          [ $code -eq 8 ] || fail "wt $closed: exit code $code"
          [[ $closed = *2* ]] || grep -q "standard output cannot be written" "$here/err" ||
            fail "wt $closed: $(cat "$here/err")" ;;
        *) [ $code -eq 0 ] || fail "wt $closed: exit code $code" ;;
      esac ;;
      *) [ $code -eq 0 ] || fail "wt $closed: exit code $code" ;;
    esac
    same "wt $closed" "$here/run"
  done
}

pipes() {  # a reader that goes away ends no training, and no success
  local code
  whole
  "$wt" $run --out "$here/run" 2> >(exec head -c 10 >/dev/null) >"$here/out"
  code=$?
  [ $code -eq 0 ] || fail "stderr without a reader: exit code $code"
  grep -q '"steps":12' "$here/out" || fail "no summary: $(cat "$here/out")"
  same "stderr without a reader" "$here/run"
  rm -rf "$here/run"
  "$wt" $run --out "$here/run" 2>&1 | head -c 10 >/dev/null
  code=${PIPESTATUS[0]}
  [ "$code" -eq 0 ] || fail "both without a reader: exit code $code"
  same "both without a reader" "$here/run"
  # An error keeps its exit code.
  "$wt" $run --lr 1e30 --clip-norm 0 --warmup 0 --out "$here/nan" 2> >(exec true) >/dev/null
  code=$?
  [ $code -eq 5 ] || fail "an error without a reader: exit code $code"
}

signals() {  # SIGUSR1 at any moment, the last ones included, ends nothing
  local pid code i
  whole
  for i in 1 2 3 4 5 6; do
    rm -rf "$here/run"
    "$wt" $run --quiet --out "$here/run" >"$here/out" 2>"$here/err" &
    pid=$!
    for _ in $(seq 200); do [ -s "$here/run/metrics.jsonl" ] && break; sleep 0.01; done
    while kill -USR1 $pid 2>/dev/null; do :; done
    wait $pid
    code=$?
    [ $code -eq 0 ] || fail "SIGUSR1 until the end: exit code $code: $(cat "$here/err")"
  done
  same "SIGUSR1" "$here/run"
}

# A disk of its own is not to be had without rights, a limit of file sizes is: metrics.jsonl and the
# event file grow into it while the small checkpoints still fit, or the other way round.
full() {
  local code
  whole
  (trap '' XFSZ && ulimit -f 1 &&
    "$wt" $run --quiet --on-write-error warn --out "$here/run" >"$here/out" 2>"$here/err")
  code=$?
  [ $code -eq 8 ] || fail "no room at the end: exit code $code: $(cat "$here/err")"
  grep -q "cannot be written: .*File too large" "$here/err" || fail "no reason: $(cat "$here/err")"
  grep -q "training goes on" "$here/err" || fail "it does not go on: $(cat "$here/err")"
  "$wt" $run --quiet --resume auto --out "$here/run" >/dev/null 2>"$here/err" ||
    fail "resumed with room: $(cat "$here/err")"
  cmp "$here/whole/$last" "$here/run/$last" || fail "the last checkpoint differs"
  (trap '' XFSZ && ulimit -f 1 &&
    "$wt" $run --quiet --out "$here/stop" >"$here/out" 2>"$here/err")
  code=$?
  [ $code -eq 8 ] || fail "stop: exit code $code: $(cat "$here/err")"
  grep -q "training goes on" "$here/err" && fail "stop goes on: $(cat "$here/err")"
  "$wt" $run --quiet --on-write-error wurn >/dev/null 2>"$here/err"
  [ $? -eq 2 ] && grep -q "did you mean 'warn'" "$here/err" || fail "wurn: $(cat "$here/err")"
}

$part
exit $bad
