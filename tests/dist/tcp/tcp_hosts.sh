# Part of tcp_test.sh: rank 0 in one network namespace, ranks 1 and 2 in another, as on two hosts. All
# of what values tests is right; then, in the middle of a run, the link is cut, and both sides throw
# PeerFailure within the deadline and 5 s more. Needs the right to make namespaces.
a=wt-c-$$ b=wt-d-$$ link_a=wtc link_b=wtd
tidy() {
  [ ${#pids[@]} -eq 0 ] || kill -9 "${pids[@]}" 2>/dev/null
  ip netns del $a 2>/dev/null
  ip netns del $b 2>/dev/null
  rm -rf "$here"
}
two_hosts 10.231.78

# on NAMESPACE HOST RANK TAG: rank of 3 in the background.
on() {
  RANK=$3 WORLD_SIZE=3 MASTER_ADDR=10.231.78.1 MASTER_PORT=29500 \
    ip netns exec "$1" unshare --uts bash -c 'hostname "$1"; shift; exec "$@"' "$3" "$2" \
    "$program" "$4" --use-colour no >"$here/$3.out" 2>&1 </dev/null &
  pids+=($!)
}
all() {
  begin
  on $a wt-north 0 "$1"
  on $b wt-south 1 "$1"
  on $b wt-south 2 "$1"
}
all "[rank_values]"
finish
for r in 0 1 2; do
  [ "${codes[r]}" = 0 ] && grep -q "^All tests passed" "$here/$r.out" || fail "two hosts: rank $r"
done

# Nobody fails by himself: calls go on until the link is gone.
export WT_FAULT=partition WT_FAULT_RANK=1 WT_FAULT_CALL=1000000 WT_FAULT_DEADLINE=1500
what="a link that is cut"
all "[rank_fault]"
for ((i = 0; i < 600; ++i)); do
  [ "$(grep -l " works$" "$here"/[0-2].out | wc -l)" = 3 ] && break
  sleep 0.1
done
[ $i -lt 600 ] || fail "the ranks do not start"
cut=${EPOCHREALTIME/./}
ip -n $a link set wtc down
finish
took=$(((${EPOCHREALTIME/./} - cut) / 1000))
for r in 0 1 2; do
  [ "${codes[r]}" = 7 ] || fail "$what: rank $r ends with ${codes[r]}"
  grep -q "hangs, or the network is cut" "$here/$r.out" || fail "$what: rank $r does not say so"
done
grep -q "^RANK 1 failed=0 .*on wt-north" "$here/1.out" || fail "$what: rank 1 does not name rank 0 and its host"
[ $took -le 6500 ] || fail "all have ended $took ms after the cut, at most 6500"
[ $took -ge 1000 ] || fail "all have ended $took ms after the cut, before the deadline"
