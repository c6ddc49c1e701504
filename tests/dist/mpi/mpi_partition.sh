# Part of mpi_test.sh: rank 0 in one network namespace, rank 1 in another, as on two hosts; in the
# middle of a run the link between them is cut. Both sides throw PeerFailure within the deadline and
# 5 s more, and end with 7. Needs the right to make namespaces.
a=wt-a-$$ b=wt-b-$$ link_a=wta link_b=wtb
tidy() {
  [ -z "${job:-}" ] || kill -9 -- "-$job" 2>/dev/null
  # mpirun's daemon in the other namespace, which it can reach no more.
  ip netns pids $b 2>/dev/null | xargs -r kill -9 2>/dev/null
  ip netns del $a 2>/dev/null
  ip netns del $b 2>/dev/null
  rm -rf "$here"
}
trap tidy EXIT
two_hosts 10.231.77

# What mpirun calls for a rank on another host: agent HOST COMMAND...
cat >"$here/agent" <<END
#!/bin/bash
shift
exec ip netns exec $b unshare --uts bash -c 'hostname wt-south; exec bash -c "\$*"' agent "\$@"
END
chmod +x "$here/agent"
unset OMPI_MCA_oob_tcp_if_include
export OMPI_MCA_plm_rsh_agent=$here/agent OMPI_MCA_btl=self,tcp
export OMPI_MCA_oob_tcp_if_include=10.231.77.0/24 OMPI_MCA_btl_tcp_if_include=10.231.77.0/24
# Rank 1 never fails here: calls go on until the link is gone.
export WT_FAULT=partition WT_FAULT_RANK=1 WT_FAULT_CALL=1000000 WT_FAULT_DEADLINE=1500
what="partition"
setsid ip netns exec $a unshare --uts bash -c 'hostname wt-north; exec "$@"' north \
  mpirun --host 10.231.77.1:1,10.231.77.2:1 -n 2 -x WT_RANKS -x WT_FAULT_FILE -x WT_FAULT -x WT_FAULT_RANK \
  -x WT_FAULT_CALL -x WT_FAULT_DEADLINE -x OMPI_MCA_btl -x OMPI_MCA_btl_tcp_if_include \
  "$self" --rank "$program" "[rank_fault]" --use-colour no >"$here/mpirun" 2>&1 </dev/null &
job=$!
disown
# Both are at work.
for ((i = 0; i < 600; ++i)); do
  grep -qs "RANK 0 works" "$here/0.out" && grep -qs "RANK 1 works" "$here/1.out" && break
  kill -0 $job 2>/dev/null || fail "mpirun has ended"
  sleep 0.1
done
[ $i -lt 600 ] || fail "the ranks do not start"
cut=${EPOCHREALTIME/./}
ip -n $a link set wta down
for ((i = 0; i < 600; ++i)); do
  [ -s "$here/0.code" ] && [ -s "$here/1.code" ] && break
  sleep 0.1
done
took=$(((${EPOCHREALTIME/./} - cut) / 1000))
survivors 1 - 1 6500 "hangs, or the network is cut"
line=$(grep -h "^RANK 1 failed=0 " "$here/1.out") || fail "rank 1 does not name rank 0"
[ "$(cat "$here/1.code")" = 7 ] || fail "rank 1: exit code $(cat "$here/1.code")"
[ $took -le 6500 ] || fail "both sides have ended $took ms after the cut, at most 6500"
[ $took -ge 1000 ] || fail "both sides have ended $took ms after the cut, before the deadline"
grep -q "on wt-north " <<<"$line" || fail "no host in: $line"
