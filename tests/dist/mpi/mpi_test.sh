#!/usr/bin/env bash
# mpi_test.sh PROGRAM HAS_MPI PART: the mpi backend under mpirun. PROGRAM is wt_tests, whose hidden
# cases are what a rank runs (tests/dist/world/process_ranks.cpp, process_faults.cpp). PART:
#   values     every collective, on 1, 2 and 4 ranks
#   failures   a rank is killed, stopped, late, gives up, calls something else, leaves: every other
#              one throws PeerFailure that names it, in time, and ends with 7
#   partition  two ranks in two network namespaces, whose link is cut (mpi_partition.sh)
# mpi_test.sh --rank PROGRAM ARGS...: what mpirun starts; it leaves output and exit code in files.
set -uo pipefail
if [ "$1" = --rank ]; then
  shift
  trap : TERM  # mpirun's signal is for the program; its exit code is wanted
  rank=${OMPI_COMM_WORLD_RANK:?}
  "$@" >"$WT_RANKS/$rank.out" 2>&1 </dev/null
  rc=$?
  echo $rc >"$WT_RANKS/$rank.code"
  exit $rc
fi
program=$1 has_mpi=$2 part=$3
[ "$has_mpi" = 1 ] || { echo "SKIPPED: this build has no MPI"; exit 77; }
command -v mpirun >/dev/null || { echo "SKIPPED: no mpirun"; exit 77; }
self=$(readlink -f "$0")
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-mpi-XXXXXX")
trap 'rm -rf "$here"' EXIT
export WT_RANKS=$here WT_FAULT_FILE=$here/fault
. "${self%/*}/mpi_env.sh"
. "${self%/*}/../ranks.sh"
fail() {
  echo "FAILED: $*"
  tail -n 25 "$here"/*.out "$here/mpirun" 2>/dev/null
  exit 1
}

# run N TAG [OPTIONS...]: mpirun's exit code; what it and the ranks said is in files.
run() {
  local n=$1 tag=$2
  shift 2
  rm -f "$here"/*.out "$here"/*.code "$here/fault"
  timeout -k 5 120 mpirun -n "$n" "$@" "$self" --rank "$program" "$tag" --use-colour no \
    >"$here/mpirun" 2>&1 </dev/null
}

code_of() { cat "$here/$1.code" 2>/dev/null; }

# fault HOW RANK CALL DEADLINE N [OPTIONS...]
fault() {
  export WT_FAULT=$1 WT_FAULT_RANK=$2 WT_FAULT_CALL=$3 WT_FAULT_DEADLINE=$4
  what="$1 of rank $2 of $5 at call $3"
  local n=$5
  shift 5
  run "$n" "[rank_fault]" "$@"
}

values() {
  local n r
  for n in 1 2 4; do
    run "$n" "[rank_values]" || fail "$n ranks: exit code $?"
    for ((r = 0; r < n; ++r)); do
      grep -q "^All tests passed" "$here/$r.out" || fail "rank $r of $n"
    done
  done
}

failures() {
  local rank
  # The others are left alone by mpirun (--enable-recovery): they end by themselves.
  rank=$((1 + RANDOM % 3))
  fault kill $rank $((RANDOM % 60)) 60000 4 --enable-recovery
  survivors 4 $rank $rank 5000 "died: its connection ended"
  # mpirun ends the others by SIGTERM a second after the first end: they have reported by then.
  fault kill 0 $((RANDOM % 60)) 60000 2
  [ $? -ne 0 ] || fail "$what: mpirun's exit code is 0"
  survivors 2 0 0 5000 "died: its connection ended"
  # TCP between the ranks of one host, as between two: its errors end nobody.
  OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo fault kill 2 $((RANDOM % 60)) 60000 3 --enable-recovery
  survivors 3 2 2 5000 "died: its connection ended"
  fault exit 1 $((RANDOM % 60)) 60000 3 --enable-recovery
  survivors 3 1 1 5000 "died: its connection ended"
  fault hang 1 $((RANDOM % 60)) 1000 3
  survivors 3 1 1 6000 "hangs"
  fault late 2 $((1 + RANDOM % 59)) 1000 3 --enable-recovery
  survivors 3 2 2 6000 "did not come to"
  fault abort 1 7 60000 3 --enable-recovery
  survivors 3 - 1 5000 "at step 7 gave up: no more disk"
  fault throw 0 7 60000 3 --enable-recovery
  survivors 3 0 0 5000 "gave up: ended by an exception"
  fault leave 1 7 60000 3 --enable-recovery
  survivors 3 1 1 5000 "has left: it is done with its calls"
  fault kind 2 4 60000 3 --enable-recovery
  survivors 3 - 2 5000 "at step 4 called all_gather of 100 f32 where rank 0 called all_reduce (sum) of 100 f32"
  # Calls of another operation or dtype: tests/dist/tcp/tcp_test.sh.
  fault count 1 8 60000 3 --enable-recovery
  survivors 3 - 1 5000 "called all_reduce (sum) of 101 f32 where rank 0 called all_reduce (sum) of 100 f32"
  fault letter 1 4 60000 3 --enable-recovery
  survivors 3 1 1 5000 "called send of 100 f32 where rank 2 called recv of 99 f32"
  # In a group, of whose ranks rank 2 of the job is the first.
  export WT_FAULT_GROUP=1
  fault kill 2 $((RANDOM % 60)) 60000 3 --enable-recovery
  survivors 3 2 0 5000 "died: its connection ended"
  fault hang 0 $((RANDOM % 60)) 1000 3
  survivors 3 0 2 6000 "hangs"
  unset WT_FAULT_GROUP
  # Without a fault nobody fails.
  fault none 0 10 60000 3
  [ "$(grep -hc "^RANK [0-2] done" "$here"/[0-2].out | sort -u)" = 1 ] || fail "no fault, and not done"
}

case $part in
  values) values ;;
  failures) failures ;;
  partition) . "${self%/*}/mpi_partition.sh" ;;
  *) echo "mpi_test: there is no part '$part'"; exit 2 ;;
esac
exit 0
