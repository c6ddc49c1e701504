#!/usr/bin/env bash
# tcp_test.sh PROGRAM PART: ranks that nobody started together, as processes on the loopback. PROGRAM is
# wt_tests, whose hidden cases are what a rank runs (tests/dist/world/process_*.cpp). PART:
#   values    every collective, on 1, 2 and 4 ranks
#   failures  a rank is killed, stopped, late, gives up, calls something else, leaves: every other one
#             throws PeerFailure that names it, in time, and ends with 7
#   start     a rank that never comes, comes twice or says another world size, strangers, a wrong
#             address, a port in use, another version, torchrun's variables that are wrong
#   hosts     ranks in two network namespaces, as on two hosts; the link between them is cut
set -uo pipefail
program=$1 part=$2
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-tcp-XXXXXX")
export WT_FAULT_FILE=$here/fault
. "${0%/*}/../ranks.sh"
. "${0%/*}/tcp_ranks.sh"
fail() {
  echo "FAILED: $*"
  tail -n 25 "$here"/*.out 2>/dev/null
  exit 1
}
# The ranks of one machine: as many threads in all as it has processors.
export OMP_NUM_THREADS=1

# start RANK SIZE TAG [NAME=VALUE...]: a rank in the background, at $address and $port.
start() {
  local rank=$1 size=$2 tag=$3 key=${#pids[@]}
  shift 3
  env RANK="$rank" WORLD_SIZE="$size" LOCAL_RANK="$rank" LOCAL_WORLD_SIZE="$size" \
    MASTER_ADDR="$address" MASTER_PORT="$port" "$@" "$program" "$tag" --use-colour no \
    >"$here/$key.out" 2>&1 </dev/null &
  pids+=($!)
}
# begin: no rank yet; they are numbered in the order of their start.
begin() {
  pids=()
  rm -f "$here"/*.out "$here/fault"
  port=$(free_port) address=127.0.0.1
}
# finish [BUT]: waits for all, but for the one of number BUT; `codes` has how each ended.
finish() {
  local i
  codes=()
  for ((i = 0; i < ${#pids[@]}; ++i)); do
    [ "$i" = "${1:--}" ] && codes+=(-) && continue
    wait "${pids[i]}"
    codes+=($?)
  done
}

code_of() { echo "${codes[$1]}"; }
# fault HOW RANK CALL DEADLINE N
fault() {
  export WT_FAULT=$1 WT_FAULT_RANK=$2 WT_FAULT_CALL=$3 WT_FAULT_DEADLINE=$4
  what="$1 of rank $2 of $5 at call $3"
  local r
  begin
  for ((r = 0; r < $5; ++r)); do start $r "$5" "[rank_fault]"; done
  if [ "$1" = hang ]; then  # it stands still for good
    finish "$2"
    kill -9 "${pids[$2]}"
  else
    finish
  fi
}

values() {
  local n r
  for n in 1 2 4; do
    begin
    for ((r = 0; r < n; ++r)); do start $r $n "[rank_values]"; done
    finish
    for ((r = 0; r < n; ++r)); do
      [ "${codes[r]}" = 0 ] && grep -q "^All tests passed" "$here/$r.out" || fail "rank $r of $n"
    done
  done
}

failures() {
  local rank
  for rank in 0 1 2; do
    fault kill $rank $((RANDOM % 60)) 60000 3
    survivors ${#pids[@]} $rank $rank 5000 "died: its connection ended"
  done
  fault exit 1 $((RANDOM % 60)) 60000 3
  survivors ${#pids[@]} 1 1 5000 "died: its connection ended"
  for rank in 0 1; do
    fault hang $rank $((RANDOM % 60)) 1000 3
    survivors ${#pids[@]} $rank $rank 6000 "hangs"
  done
  fault late 2 $((1 + RANDOM % 59)) 1000 3
  survivors ${#pids[@]} 2 2 6000 "did not come to"
  fault abort 1 7 60000 3
  survivors ${#pids[@]} - 1 5000 "at step 7 gave up: no more disk"
  fault throw 0 7 60000 3
  survivors ${#pids[@]} 0 0 5000 "gave up: ended by an exception"
  fault leave 1 7 60000 3
  survivors ${#pids[@]} 1 1 5000 "has left: it is done with its calls"
  fault kind 2 4 60000 3
  survivors ${#pids[@]} - 2 5000 "at step 4 called all_gather of 100 f32 where rank 0 called all_reduce (sum) of 100 f32"
  fault op 0 4 60000 3
  survivors ${#pids[@]} - 0 5000 "called all_reduce (max) of 100 f32 where rank 1 called all_reduce (sum)"
  fault dtype 1 4 60000 2
  survivors ${#pids[@]} - 1 5000 "called all_reduce (sum) of 100 i32 where rank 0 called all_reduce (sum) of 100 f32"
  fault letter 1 4 60000 3
  survivors ${#pids[@]} 1 1 5000 "called send of 100 f32 where rank 2 called recv of 99 f32"
  # In a group, of whose ranks rank 2 of the job is the first.
  export WT_FAULT_GROUP=1
  fault kill 2 $((RANDOM % 60)) 60000 3
  survivors ${#pids[@]} 2 0 5000 "died: its connection ended"
  unset WT_FAULT_GROUP
  # Without a fault nobody fails.
  fault none 0 10 60000 3
  [ "$(grep -hc "^RANK [0-2] done" "$here"/[0-2].out | sort -u)" = 1 ] || fail "no fault, and not done"
}

# ends WHO CODE TEXT: how the process of that number ended, and what it said.
ends() {
  [ "${codes[$1]}" = "$2" ] || fail "$what: process $1 ends with ${codes[$1]}, not $2"
  grep -qE -- "$3" "$here/$1.out" || fail "$what: process $1 does not say '$3'"
}
# begun WHO: until that process looks for the others. listening: until somebody has the port.
begun() {
  local i
  for ((i = 0; i < 600; ++i)); do
    grep -qs "^BEGINS" "$here/$1.out" && return
    sleep 0.05
  done
  fail "$what: process $1 does not start"
}
listening() {
  local i
  for ((i = 0; i < 600; ++i)); do
    grep -qi ":$(printf %04X $port) 00000000:0000 0A" /proc/net/tcp && return
    sleep 0.05
  done
  fail "$what: nobody listens"
}
start_faults() {
  local r tag="[rank_start]"
  export WT_START_DEADLINE=60000
  what="a world" && begin
  for r in 2 0 1; do start $r 3 $tag; done
  finish
  for r in 0 1 2; do ends $r 0 "^SUM 3$"; done

  what="IPv6" && begin
  if grep -q "00000000000000000000000000000001 .* lo$" /proc/net/if_inet6 2>/dev/null; then
    address=::1
    for r in 0 1; do start $r 2 $tag; done
    finish
    for r in 0 1; do ends $r 0 "^SUM 1$"; done
  fi

  what="a rank that never comes" && begin
  start 2 3 $tag
  begun 0
  start 0 3 $tag WT_START_DEADLINE=2000
  finish
  for r in 0 1; do ends $r 7 "PeerFailure: .* rank 1 did not come to 127.0.0.1:$port within 2000 ms"; done

  what="no rank 0" && begin
  start 1 2 $tag WT_START_DEADLINE=500
  finish
  ends 0 7 "PeerFailure: .* rank 1 did not reach rank 0 at 127.0.0.1:$port within 500 ms: .*Connection refused"

  what="an address of another host" && begin
  address=192.0.2.7
  start 0 2 $tag
  finish
  ends 0 2 "UsageError: .* cannot listen at 192.0.2.7:$port: that is no address of this host"

  what="a port in use" && begin
  start 0 2 $tag  # has the port, and waits
  listening
  start 0 2 $tag
  finish 0
  kill -9 "${pids[0]}"
  ends 1 2 "UsageError: .* cannot listen at 127.0.0.1:$port: another program has the port"

  what="two processes of one rank" && begin
  for r in 0 1 1; do start $r 3 $tag; done
  finish
  for r in 0 1 2; do ends $r 7 "PeerFailure: .* two processes say that they are rank 1: process [0-9]+ on .*, and process [0-9]+ on "; done

  what="world sizes that differ" && begin
  start 2 3 $tag
  begun 0
  start 0 3 $tag
  start 1 2 $tag
  finish
  for r in 0 1 2; do ends $r 7 "PeerFailure: .* rank 1 on .* says that the world has 2 ranks, rank 0 says 3"; done

  # Strangers come before the ranks do.
  what="strangers" && begin
  start 0 2 $tag
  listening
  for r in 1 2 3; do
    (printf 'GET / HTTP/1.0\r\n\r\n' >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || fail "$what: no connection"
  done
  start 1 2 $tag
  finish
  for r in 0 1; do ends $r 0 "^SUM 1$"; done
  [ "$(grep -c "turned away a connection from 127.0.0.1" "$here/0.out")" = 1 ] || fail "$what: not said once"

  what="another version" && begin
  start 0 2 $tag
  # A greeting: magic, order of bytes, protocol 1, rank 1 of 2, a process, 0, and a version.
  listening
  { printf 'wtranks1\4\3\2\1\1\0\0\0\1\0\0\0\2\0\0\0\7\0\0\0\0\0\0\0000.0.9'
    head -c 219 /dev/zero; } >"/dev/tcp/127.0.0.1/$port"
  finish
  ends 0 7 "PeerFailure: .* rank 1 on .* has version 0.0.9 of warptape \(protocol 1\), rank 0 has "

  what="variables that are wrong" && begin
  port=x
  start 5 y $tag MASTER_ADDR=
  finish
  ends 0 2 "UsageError: .* torchrun's variables WORLD_SIZE must be .*, got 'y'; MASTER_PORT must be .*, got 'x'; MASTER_ADDR is not set"

  # torchrun's own store has the port that it names.
  what="torchrun's store" && begin
  start 0 2 $tag
  listening
  for r in 0 1; do start $r 2 $tag TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=here; done
  finish 0
  kill -9 "${pids[0]}"
  for r in 1 2; do ends $r 0 "^SUM 1$"; done
}

case $part in
  values) values ;;
  failures) failures ;;
  start) start_faults ;;
  hosts) . "${0%/*}/tcp_hosts.sh" ;;
  *) echo "tcp_test: there is no part '$part'"; exit 2 ;;
esac
exit 0
