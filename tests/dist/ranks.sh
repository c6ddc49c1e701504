# What tests of ranks as processes share; they have $here, $what and fail.

# survivors N LOST NAMED LIMIT REASON: all but LOST (-: no one) have ended with 7, which code_of RANK
# says, and named rank NAMED within LIMIT ms.
survivors() {
  local n=$1 lost=$2 named=$3 limit=$4 reason=$5 r line ms
  for ((r = 0; r < n; ++r)); do
    [ "$r" = "$lost" ] && continue
    line=$(grep -h "^RANK $r failed=$named " "$here/$r.out") || fail "$what: rank $r does not name rank $named"
    [ "$(code_of $r)" = 7 ] || fail "$what: rank $r: exit code $(code_of $r)"
    grep -q -- "$reason" <<<"$line" || fail "$what: no '$reason' in: $line"
    ms=$(sed -E 's/.* ms=([0-9]+) .*/\1/' <<<"$line")
    [ "$ms" -le "$limit" ] || fail "$what: rank $r after $ms ms, at most $limit"
  done
}

# two_hosts NET: network namespaces $a and $b, as two hosts at NET.1 and NET.2, linked by $link_a and
# $link_b. Ends the test as skipped where they cannot be made.
two_hosts() {
  { command -v ip && command -v unshare; } >/dev/null || { echo "SKIPPED: no ip or unshare"; exit 77; }
  { ip netns add $a && ip netns add $b && unshare --uts true &&
    ip link add $link_a netns $a type veth peer name $link_b netns $b &&
    ip -n $a addr add "$1.1/24" dev $link_a && ip -n $b addr add "$1.2/24" dev $link_b &&
    ip -n $a link set $link_a up && ip -n $b link set $link_b up &&
    ip -n $a link set lo up && ip -n $b link set lo up; } 2>"$here/why" ||
    { echo "SKIPPED: no network namespaces: $(head -1 "$here/why")"; exit 77; }
}
