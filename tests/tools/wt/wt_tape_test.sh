#!/usr/bin/env bash
# wt tape: the nodes of a recipe as a table, as JSON that a program can walk, and as a page; what is
# not known is told with the near names, and a page is whole or not there.
# Usage: wt_tape_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-tape-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
refused() {  # refused CODE TEXT ARGUMENTS...
  local said rc=0
  said=$("$wt" tape "${@:3}" 2>&1) || rc=$?
  [ $rc -eq "$1" ] || fail "wt tape ${*:3}: exit code $rc: $said"
  grep -qF -- "$2" <<<"$said" || fail "wt tape ${*:3}: no '$2' in: $said"
}
refused 2 "did you mean 'fashion'" fashon
refused 2 "a tape is of one training" precision-race
refused 8 "$here/no/tape.html" fashion --device cpu --batch 2 --html "$here/no/tape.html"

said=$("$wt" tape fashion --device cpu --batch 4) || fail "exit code $?"
grep -q '^fashion on cpu, f32, batch 4: 13 nodes keep ' <<<"$said" || fail "no head: $said"
grep -q '^5.linear  *f32 \[4, 128\] .*matmul:' <<<"$said" || fail "no linear with its kernels: $said"

"$wt" tape charlm --device cpu --batch 2 --json --html "$here/tape.html" >"$here/tape.json" || fail "exit code $?"
python3 - "$here/tape.json" "$here/tape.html" <<'EOF' || bad=1
import json, re, sys

tape = json.load(open(sys.argv[1]))
page = open(sys.argv[2]).read()
nodes = tape["nodes"]
order = [n["node"] for n in nodes]
assert order == sorted(order) and len(set(order)) == len(order)
edges = sum(len(n["inputs"]) for n in nodes)
assert all(i < n["node"] for n in nodes for i in n["inputs"])
# All but the last are read by somebody.
assert set(order[:-1]) == {i for n in nodes for i in n["inputs"]}, "a node that nobody reads"
assert tape["saved_bytes"] == sum(n["saved_bytes"] for n in nodes)
assert all(n["saved_bytes"] == sum(s["bytes"] for s in n["saved"] if s["counts"]) for n in nodes)
# f32, 2 x 128 x 128: what a linear reads, which the norm before it has no use for.
down = next(n for n in nodes if n["op"] == "linear" and n["module"] == "block0.down")
assert down["parameters"] == ["block0.down.weight", "block0.down.bias"], down
operand = next(s for s in down["saved"] if s["what"] == "operand 0")
assert operand["bytes"] == 4 * 2 * 128 * 512 and operand["counts"], down
weight = next(s for s in down["saved"] if s["what"] == "block0.down.weight")
assert not weight["counts"], down
assert [k["launches"] for k in down["backward"] if k["kernel"].startswith("matmul:")] == [2], down
assert [k["launches"] for k in down["forward"] if k["kernel"].startswith("matmul:")] == [1], down
# The page has all of it: a dot a node, a line an edge, and links that lead somewhere.
assert page.count("<circle") == len(nodes) and page.count("<path") == edges
ids = re.findall(r'id="(n\d+)"', page)
assert len(ids) == len(set(ids)) == sum(bool(n["saved"]) for n in nodes)
assert set(re.findall(r'href="#(n\d+)"', page)) <= set(ids)
EOF
[ $bad -eq 0 ]
