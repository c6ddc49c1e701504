#!/usr/bin/env bash
# Row 111: wt doctor from outside: findings, exit codes, JSON, what fails at once.
# Usage: wt_doctor_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
bad=0
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() { echo "FAILED: $*"; bad=1; }
small="--set model=mlp --batch 16 --examined 6"

# expect CODE TEXT ARGUMENTS...
expect() {
  local code=$1 text=$2 rc=0
  shift 2
  "$wt" doctor "$@" >"$here/out" 2>&1 || rc=$?
  [ $rc -eq "$code" ] || fail "wt doctor $*: exit code $rc, expected $code: $(cat "$here/out")"
  grep -qF -- "$text" "$here/out" || fail "wt doctor $*: no '$text' in: $(cat "$here/out")"
}
# shellcheck disable=SC2086  # words
{
  expect 10 '[threads-many]' fashion $small --threads $(($(nproc) + 3))
  expect 10 '[workers-many]' fashion $small --workers $(($(nproc) + 3))
  expect 10 '[loss-flat]' fashion $small --lr 1e-12 --warmup 0 --plot "$here/rates.svg" --html "$here/page.html"
  expect 8 'missing/page.html' fashion $small --html "$here/missing/page.html"
  expect 10 '[step-fails]' fashion --data "$here/missing"
  expect 10 '[step-fails]' charlm --data "$here/missing"
  expect 2 'the doctor sees a few steps' fashion --out "$here/run"
  expect 2 'is many' optimizer-race
  expect 2 'fashion' fashoin
}
grep -q '<svg' "$here/rates.svg" || fail "--plot drew nothing"
for part in '<!doctype html>' 'id="loss-flat"' '<svg class="chart"' '</html>'; do
  grep -qF "$part" "$here/page.html" || fail "--html: no $part"
done

"$wt" doctor fashion --set model=mlp --batch 16 --examined 6 --lr 1e-12 --warmup 0 --json >"$here/json"
[ $? -eq 10 ] || fail "--json: exit code $?"
python3 - "$here/json" "$root/docs/doctor.md" <<'END_OF_PYTHON' || fail "--json: $(cat "$here/json")"
import json, re, sys
line, = open(sys.argv[1])
exam = json.loads(line)
assert exam["recipe"] == "fashion" and exam["device"] and exam["batch"] == 16
report = exam["report"]
assert report["steps"] == 6 and report["step_us"] > 0 and len(report["rate_curve"]) > 3
rules = re.findall(r"^\| `([a-z0-9-]+)` \|", open(sys.argv[2]).read(), re.M)
for f in report["findings"]:
    assert f["rule"] in rules and f["severity"] in ("wrong", "waste", "hint") and f["fix"]
assert "loss-flat" in [f["rule"] for f in report["findings"]]
END_OF_PYTHON
exit $bad
