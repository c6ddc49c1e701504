#!/usr/bin/env bash
# mpi_train_test.sh WT HAS_MPI PART: wt train on ranks that are processes. PART:
#   same    1 to 4 ranks train the same, and write one run, whatever parts they keep (--zero);
#           steps that are graphs too
#   killed  9 times, of 2 to 4 ranks with each stage of ZeRO, a random one is killed at a random
#           step: every other one ends with 7 and names it within 5 s, and the run goes on from its
#           last checkpoint with fewer ranks
#   hung    3 times one is stopped instead: the same, within the deadline and 5 s
# mpi_train_test.sh --rank WT ARGS...: what mpirun starts; it leaves output, number and exit code.
set -uo pipefail
if [ "$1" = --rank ]; then
  shift
  trap : TERM  # mpirun's signal is for the program; its exit code is wanted
  rank=${OMPI_COMM_WORLD_RANK:?}
  "$@" >"$WT_RANKS/$rank.out" 2>"$WT_RANKS/$rank.err" </dev/null &
  echo $! >"$WT_RANKS/$rank.pid"
  wait $!
  rc=$?
  [ $rc -gt 128 ] && kill -0 "$(cat "$WT_RANKS/$rank.pid")" 2>/dev/null && wait && rc=$?
  echo $rc >"$WT_RANKS/$rank.code"
  exit $rc
fi
wt=$1 has_mpi=$2 part=$3
[ "$has_mpi" = 1 ] || { echo "SKIPPED: this build has no MPI"; exit 77; }
command -v mpirun >/dev/null || { echo "SKIPPED: no mpirun"; exit 77; }
self=$(readlink -f "$0")
. "${self%/*}/mpi_env.sh"
. "${self%/*}/../../support/tiny_fashion.sh"
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-mpi-train-XXXXXX")
export WT_RANKS=$here
mpirun_pid=""
finish() {
  [ -z "$mpirun_pid" ] || kill -9 "$mpirun_pid" 2>/dev/null
  for pid in "$here"/*.pid; do kill -9 "$(cat "$pid" 2>/dev/null)" 2>/dev/null; done
  rm -rf "$here"
}
trap finish EXIT
tiny_fashion "$here/data" 64 20
fail() {
  echo "FAILED: $*"
  tail -n 15 "$here"/*.err "$here/mpirun" 2>/dev/null
  exit 1
}

# start N ARGS...: mpirun in the background; the run is $here/run.
start() {
  local n=$1
  shift
  rm -f "$here"/*.out "$here"/*.err "$here"/*.code "$here"/*.pid
  mpirun -n "$n" --enable-recovery "$self" --rank "$wt" train fashion --data "$here/data" \
    --set model=mlp --batch 12 --optimizer sgd --threads 1 "$@" >"$here/mpirun" 2>&1 </dev/null &
  mpirun_pid=$!
}
end() {
  wait "$mpirun_pid"
  local rc=$?
  mpirun_pid=""
  return $rc
}
number() { sed -nE "s/.*\"$1\":([-0-9.e+]+).*/\1/p" "$2" | tail -n 1; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }

same() {
  local n r loss zero
  "$wt" train fashion --data "$here/data" --set model=mlp --batch 12 --optimizer sgd --threads 1 \
    --steps 18 --quiet >"$here/alone" || fail "one process: exit code $?"
  loss=$(number eval_loss "$here/alone")
  for n in 1 3 2:1 4:2; do  # ranks, or ranks:stage of ZeRO
    zero=${n#*:}
    [ "$zero" = "$n" ] && zero=0
    n=${n%:*}
    rm -rf "$here/run"
    start $n --steps 18 --zero $zero --out "$here/run"
    end || fail "$n ranks, --zero $zero: exit code $?"
    for ((r = 1; r < n; ++r)); do
      [ ! -s "$here/$r.out" ] && [ ! -s "$here/$r.err" ] || fail "rank $r of $n says something"
    done
    [ "$(number ranks "$here/0.out")" = $n ] || fail "$n ranks: the summary says otherwise"
    [ $n = 1 ] || grep -q "\"rank_own_ms\":\[[^]]*,[^]]*\],\"rank_waited_ms\":\[" "$here/0.out" ||
      fail "$n ranks: nobody says who waited"
    # Sums in another order: some units in the last place of f32 a step.
    awk -v a="$(number eval_loss "$here/0.out")" -v b="$loss" \
      'BEGIN { d = a - b; exit !(d < 1e-5 * b && -d < 1e-5 * b) }' ||
      fail "$n ranks: $(number eval_loss "$here/0.out"), one process: $loss"
    [ -s "$here/run/report.html" ] || fail "$n ranks: no report"
  done
}

# Steps that are graphs, of processes and of threads.
captured() {
  local flag losses=""
  for flag in "" --graph; do
    rm -rf "$here/run"
    start 2 --steps 18 --device simt --out "$here/run" $flag
    end || fail "2 ranks on simt $flag: exit code $?"
    losses+=" $(number eval_loss "$here/0.out")"
    "$wt" train fashion --data "$here/data" --set model=mlp --batch 12 --optimizer sgd --threads 1 \
      --steps 18 --device simt --ranks 2 --quiet $flag >"$here/threads" 2>"$here/threads.err" ||
      fail "2 threads on simt $flag: exit code $?"
    [ ! -s "$here/threads.err" ] || fail "$(cat "$here/threads.err")"
    losses+=" $(number eval_loss "$here/threads")"
  done
  set -- $losses
  [ $# = 4 ] && [ "$1" = "$3" ] && [ "$2" = "$4" ] || fail "eager and captured steps differ:$losses"
}

# wait_for_step N: until the run has logged it. Rank 0 logs every step.
wait_for_step() {
  local i
  for ((i = 0; i < 3000; ++i)); do
    [ "$(number step "$here/run/metrics.jsonl" 2>/dev/null || echo 0)" -ge "$1" ] 2>/dev/null && return
    kill -0 "$mpirun_pid" 2>/dev/null || fail "it ended before step $1"
    sleep 0.01
  done
  fail "no step $1 in 30 s"
}

# lose SIGNAL LIMIT_MS DEADLINE N ZERO: a run of N ranks loses a random one some steps on.
lose() {
  local signal=$1 limit=$2 deadline=$3 n=$4 zero=$5 lost r begin missing step
  lost=$((RANDOM % n))
  step=$(number step "$here/run/metrics.jsonl" 2>/dev/null || true)
  step=$((${step:-0} + 3 + RANDOM % 40))
  start "$n" --steps 1000000 --log-every 1 --save-every 10 --eval-every 1000000 --out "$here/run" \
    --resume auto --deadline "$deadline" --zero "$zero"
  wait_for_step $step
  begin=$(now_ms)
  kill -"$signal" "$(cat "$here/$lost.pid")"
  what="rank $lost of $n, --zero $zero, after step $step"
  while :; do
    missing=0
    for ((r = 0; r < n; ++r)); do
      [ $r = $lost ] || [ -s "$here/$r.code" ] || missing=1
    done
    [ $missing = 1 ] || break
    [ $(($(now_ms) - begin)) -le "$limit" ] || fail "$what: somebody is there after $limit ms"
    sleep 0.02
  done
  echo "$what: $(($(now_ms) - begin)) ms"
  for ((r = 0; r < n; ++r)); do
    [ $r = $lost ] && continue
    [ "$(cat "$here/$r.code")" = 7 ] || fail "$what: rank $r ends with $(cat "$here/$r.code")"
    grep -q "PeerFailure: .*rank $lost " "$here/$r.err" || fail "$what: rank $r does not name it"
  done
  kill -9 "$(cat "$here/$lost.pid")" 2>/dev/null
  end
}

# The run that lost its ranks is whole: it goes on with those that are left, and evaluates.
go_on() {
  local step
  step=$(number step "$here/run/metrics.jsonl")
  start 3 --steps 1000000 --log-every 1 --save-every 10 --eval-every 1000000 --out "$here/run" \
    --resume auto --zero 2
  wait_for_step $((step + 5))
  kill -TERM "$(cat "$here/1.pid")"  # the step is finished, the checkpoint written
  end
  for r in 0 1 2; do
    [ "$(cat "$here/$r.code")" = 143 ] || fail "after SIGTERM rank $r ends with $(cat "$here/$r.code")"
  done
  grep -q "going on at step" "$here/0.err" || fail "it did not go on"
  "$wt" eval "$here/run" --data "$here/data" >/dev/null || fail "the last checkpoint does not load"
}

case $part in
  same)
    same
    captured ;;
  killed)
    for i in $(seq 0 8); do lose KILL 5000 60 $((2 + i % 3)) $((i / 3 % 3)); done
    go_on ;;
  hung)
    for i in $(seq 3); do lose STOP 7000 2 $((2 + i % 3)) $(((i + 1) % 3)); done
    go_on ;;
  *) echo "mpi_train_test: there is no part '$part'"; exit 2 ;;
esac
exit 0
