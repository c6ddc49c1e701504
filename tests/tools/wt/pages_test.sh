#!/usr/bin/env bash
# The pages that the measuring tools write, of tiny runs, in a headless Chromium: quiet, in both
# schemes, wide and narrow, with searches, zoom and details that work. Skipped without a browser.
# Usage: pages_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
browser=
for name in "${WT_BROWSER:-}" chromium chromium-browser google-chrome; do
  [ -n "$name" ] && browser=$(command -v "$name") && break
done
if [ -z "$browser" ] || ! command -v python3 >/dev/null; then
  echo "SKIPPED: no chromium (tools/setup.sh --browser) or no python3"
  exit 77
fi
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-pages-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
run() {  # run CODES ARGUMENTS...: wt, with one of these exit codes
  local codes=$1 rc=0
  shift
  "$wt" "$@" >"$here/out" 2>&1 || rc=$?
  [[ " $codes " = *" $rc "* ]] || fail "wt $*: exit code $rc: $(cat "$here/out")"
}
mlp="--set model=mlp --batch 16"

export WT_MACHINE="$here/machine.tsv"
# shellcheck disable=SC2086  # words
{
  run 0 profile fashion $mlp --data synthetic --quiet --steps 3 --out "$here/bare"
  run 0 bench machine --device cpu --only copy --only product --seconds 0.01 --copy-size 1MiB --matrix 64
  run 0 profile fashion $mlp --data synthetic --quiet --steps 3 --out "$here/profile"
  # Two findings for certain: loss-flat and workers-many.
  run 10 doctor fashion $mlp --examined 6 --lr 1e-12 --warmup 0 --workers $(($(nproc) + 3)) \
    --html "$here/doctor.html"
  # Nothing is wrong with it; a machine that is at work may still be found to be slow.
  run "0 10" doctor fashion --batch 8 --set width=8 --examined 4 --html "$here/doctor_well.html"
  grep -qF "nothing found</title>" "$here/doctor_well.html" || rm "$here/doctor_well.html"
  for run in a b; do
    lr=$([ $run = a ] && echo 1e-3 || echo 1e-2)
    run 0 train fashion $mlp --data synthetic --quiet --steps 4 --lr $lr --log-tensors 1 --out "$here/$run"
  done
  run 0 tape charlm --device cpu --batch 2 --html "$here/tape.html"
  if [ -x "${wt%/*}/wt_race" ]; then
    run 0 look softmax_forward:block --op 3x2000 --source "$root" --out "$here/look.html"
  fi
  if [ -e "${wt%/*}/labs/host/grade.conf" ]; then
    PYTHONDONTWRITEBYTECODE=1 python3 - "$root" "$here" <<'END' || bad=1
import sys
from pathlib import Path
root, here = map(Path, sys.argv[1:])
sys.path.insert(0, str(root / "tests/labs"))
import lab_test
lab = root / "labs/10_tape"
lab_test.as_file(lab / "wrong/hook_each.diff", lab / "solution.cpp", [], here)
END
    run 11 lab report "$here/hook_each.cpp" --lab 10 --out "$here/lab.html"
  fi
  run 9 diff "$here/a" "$here/b" --html "$here/diff.html"
}
cp "$here/bare/roofline.html" "$here/roofline_bare.html"
cp "$here/profile/timeline.html" "$here/profile/roofline.html" "$here/"
[ $bad -eq 0 ] || exit 1
PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/tools/wt/pages/pages_test.py" "$browser" "$here" || bad=1
[ $bad -eq 0 ] && echo "the pages are right"
exit $bad
