#!/usr/bin/env bash
# tcp_train_test.sh WT: wt train on processes that torchrun's variables name. Two of them train what one
# does and write one run; one that is killed is named by the other, which ends with 7; --ranks of
# another number is refused.
set -uo pipefail
wt=$1
. "$(dirname "$0")/../../support/tiny_fashion.sh"
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-tcp-train-XXXXXX")
. "$(dirname "$0")/tcp_ranks.sh"
fail() {
  echo "FAILED: $*"
  tail -n 15 "$here"/*.err 2>/dev/null
  exit 1
}
tiny_fashion "$here/data" 64 20
args=(train fashion --data "$here/data" --set model=mlp --batch 12 --optimizer sgd --threads 1)
number() { sed -nE "s/.*\"$1\":([-0-9.e+]+).*/\1/p" "$2" | tail -n 1; }

# start ARGS...: ranks 0 and 1 in the background.
start() {
  local rank port
  port=$(free_port)
  rm -f "$here"/*.out "$here"/*.err
  pids=()
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port "$wt" "${args[@]}" "$@" \
      >"$here/$rank.out" 2>"$here/$rank.err" </dev/null &
    pids+=($!)
  done
}

"$wt" "${args[@]}" --steps 18 --quiet >"$here/alone" || fail "one process: exit code $?"
start --steps 18 --out "$here/run"
for rank in 0 1; do wait "${pids[rank]}" || fail "rank $rank: exit code $?"; done
[ ! -s "$here/1.out" ] && [ ! -s "$here/1.err" ] || fail "rank 1 says something"
[ "$(number ranks "$here/0.out")" = 2 ] || fail "the summary does not say 2 ranks"
grep -q "2 ranks, over tcp" "$here/0.err" || fail "nobody says over what"
awk -v a="$(number eval_loss "$here/0.out")" -v b="$(number eval_loss "$here/alone")" \
  'BEGIN { d = a - b; exit !(d < 1e-5 * b && -d < 1e-5 * b) }' ||
  fail "two: $(number eval_loss "$here/0.out"), one process: $(number eval_loss "$here/alone")"
[ -s "$here/run/report.html" ] || fail "no report"

start --steps 1000000 --log-every 1 --out "$here/lost"
for ((i = 0; i < 3000; ++i)); do
  step=$(number step "$here/lost/metrics.jsonl" 2>/dev/null)
  [ "${step:-0}" -ge 5 ] && break
  sleep 0.02
done
[ $i -lt 3000 ] || fail "no step 5 in a minute"
kill -9 "${pids[1]}"
wait "${pids[1]}"
begin=${EPOCHREALTIME/./}
wait "${pids[0]}"
[ $? = 7 ] || fail "rank 0 does not end with 7"
took=$(((${EPOCHREALTIME/./} - begin) / 1000))
[ $took -le 5000 ] || fail "rank 0 ends after $took ms, at most 5000"
grep -q "PeerFailure: .*rank 1 .*died" "$here/0.err" || fail "rank 0 does not name rank 1"

start --steps 1 --ranks 3
for rank in 0 1; do
  wait "${pids[rank]}"
  [ $? = 2 ] || fail "--ranks 3 beside two processes: no exit code 2"
  grep -q "ranks 3 beside a launcher that started 2" "$here/$rank.err" || fail "--ranks 3: rank $rank does not say why"
done
exit 0
