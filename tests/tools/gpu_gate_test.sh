#!/usr/bin/env bash
# gpu_gate_test.sh: tools/gpu_gate.sh over stand-ins for its programs: what it skips, what fails, what
# it writes.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/build" "$dir/bin"
failures=0
expect() {  # expect WHAT COMMAND...
  local what=$1
  shift
  "$@" >/dev/null 2>&1 && return
  echo "FAILED: $what"
  failures=$((failures + 1))
}

# What the stand-ins do is in files beside them: an exit code a word.
stand_in() {
  cat >"$1"
  chmod +x "$1"
}
stand_in "$dir/build/wt_gpu_bench" <<'EOF'
#!/usr/bin/env bash
here=$(dirname "$0")
what=$1
shift
while [ $# -gt 0 ]; do
  case $1 in
    --from) echo "from $2" >>"$here/calls" ;;
    --json) echo "{\"bench\":\"$what\",\"impl\":\"ours\"}" >>"$2" ;;
    --page) echo "page of $what" >>"$2" ;;
  esac
  shift 2
done
[ "$what" = probe ] && cat "$here/probe" 2>/dev/null
[ "$what" = kernels ] && cat "$here/wrong" 2>/dev/null
if [ "$what" = kernels ] && [ -s "$here/left" ]; then  # a line a call: the contract that is left
  echo "LEFT: from $(head -1 "$here/left")"
  sed -i 1d "$here/left"
  exit 3
fi
[ -e "$here/slow_$what" ] && sleep 30
exit "$(cat "$here/exit_$what" 2>/dev/null || echo 0)"
EOF
stand_in "$dir/build/wt_tests" <<'EOF'
#!/usr/bin/env bash
here=$(dirname "$0")
echo "devices $WT_TEST_DEVICES shard ${WT_SHARD:-none}" >>"$here/calls"
case "$*" in
  *broken_test*)
    echo "test cases: 1 | 1 failed"
    exit 1
    ;;
esac
echo "All tests passed (1 assertion in 1 test case)"
EOF
stand_in "$dir/bin/python3" <<'EOF'
#!/usr/bin/env bash
echo "SKIPPED: no torch here"
exit 77
EOF
stand_in "$dir/bin/compute-sanitizer" <<'EOF'
#!/usr/bin/env bash
[ "$WT_ALLOC" = direct ] || exit 8
[ "$2" = "$(cat "$(dirname "$0")/finds" 2>/dev/null)" ] && echo "an error was found" && exit 9
exit 0
EOF
printf 'copy_test 1/1\nops_test 2/4\n' >"$dir/build/gpu_tests.txt"
export PATH=$dir/bin:$PATH WT_BUILD_DIR=$dir/build
gate() { "$root/tools/gpu_gate.sh" "$@" >"$dir/said" 2>&1; }
says() { grep -q -- "$1" "$dir/said"; }
page() { grep -q -- "$1" "$dir/out/gpu_gate.md"; }

gate && expect "no folder named: usage" false
expect "usage" says usage

echo 77 >"$dir/build/exit_probe"
echo "SKIPPED: no driver" >"$dir/build/probe"
expect "no GPU: exit code 0" gate "$dir/out"
expect "no GPU: the page says so" page "SKIPPED: no driver"

echo 6 >"$dir/build/exit_probe"
gate "$dir/out" && expect "a device that fails its probe fails the gate" false
expect "probe named" says "GPU gate FAILED: probe"
rm "$dir/build/exit_probe"
echo "NVIDIA Stand-in" >"$dir/build/probe"

expect "all well: exit code 0" gate "$dir/out"
expect "passed" says "GPU gate passed"
for text in "NVIDIA Stand-in" "| tests | passed" "| kernels | passed" "| racecheck | passed" \
  "| step | SKIPPED: no torch" "page of kernels" "page of dispatch"; do
  expect "page: $text" page "$text"
done
expect "rows are kept" test "$(grep -c bench "$dir/out/gpu_gate.jsonl")" -ge 3
expect "tests walk cuda" grep -q "devices cpu,simt,cuda shard 2/4" "$dir/build/calls"
expect "at most eight files" test "$(find "$dir/out" -type f | wc -l)" -le 8

echo broken_test 1/1 >>"$dir/build/gpu_tests.txt"
gate "$dir/out" && expect "a failing test fails the gate" false
expect "tests named" says "GPU gate FAILED: tests "
expect "the file named" page "failing: broken_test"
expect "the other parts ran" page "| kernels | passed"
sed -i '/broken/d' "$dir/build/gpu_tests.txt"

echo racecheck >"$dir/bin/finds"
gate "$dir/out" && expect "a finding fails the gate" false
expect "racecheck named" says "GPU gate FAILED: racecheck "
rm "$dir/bin/finds"

# --- several calls ---
exit_code() {
  local want=$1
  shift
  "$@"
  [ $? -eq "$want" ]
}
printf 'softmax_forward\nsum\n' >"$dir/build/left"
: >"$dir/build/calls"
expect "kernels are left: exit code 3" exit_code 3 gate "$dir/out"
expect "what is left is named" says "GPU gate goes on .*left: kernels - call again"
expect "the page says so" page "| kernels | left"
expect "the others ran" page "| racecheck | passed"
expect "left again" exit_code 3 gate "$dir/out"
expect "it went on where it stopped" grep -q "from softmax_forward" "$dir/build/calls"
expect "no part ran again" test "$(grep -c devices "$dir/build/calls")" -eq 3
expect "the last call" gate "$dir/out"
expect "from the second one" grep -q "from sum" "$dir/build/calls"
expect "all on the page" page "| tests | passed"
expect "rows of all calls" test "$(grep -c '"kernels"' "$dir/out/gpu_gate.jsonl")" -eq 3
expect "at most eight files in the end" test "$(find "$dir/out" -type f | wc -l)" -le 8
gate "$dir/out"
expect "then it begins anew" test "$(grep -c '"kernels"' "$dir/out/gpu_gate.jsonl")" -eq 1

expect "a part alone leaves the others" exit_code 3 gate "$dir/out" dispatch
expect "only that ran" page "| dispatch | passed"
expect "the others are named" says "left: tests kernels step"
gate "$dir/out" nonsense && expect "an unknown part: usage" false
expect "usage names the parts" says "parts: tests kernels"
rm -f "$dir/out/.gate"

printf 'sum\n' >"$dir/build/left"
echo "softmax_forward f32 WRONG: differs" >"$dir/build/wrong"
gate "$dir/out"
rm "$dir/build/wrong"
expect "a wrong value of an earlier call fails the gate" exit_code 1 gate "$dir/out"
expect "kernels named" says "GPU gate FAILED: kernels "

touch "$dir/build/slow_kernels"
expect "too little time for the second part: exit code 3" exit_code 3 env WT_GATE_SECONDS=9 \
  "$root/tools/gpu_gate.sh" "$dir/out"
expect "it is left" page "| kernels | left"
WT_GATE_SECONDS=9 gate "$dir/out" && expect "a part that takes longer than a call fails" false
expect "too slow" page "| kernels | FAILED: longer than"
rm "$dir/build/slow_kernels" "$dir/out/.gate"

rm "$dir/build/wt_tests"
gate "$dir/out" && expect "a missing program fails the gate" false
expect "program named" says "wt_tests is not there"

[ "$failures" -eq 0 ]
