#!/usr/bin/env bash
# run_case.sh PROGRAM ARGS...: one ctest entry. A failure fails; a run that passed but skipped a case
# exits 77, which ctest shows as Skipped: a skip must never look passed, nor hide a failure beside
# it. The last line counts test cases; tools/test.sh adds them up.
# run_case.sh --one PROGRAM ARGS...: any program, counted as one case; exit code 77 means skipped.
set -u
if [ "$1" = --one ]; then
  shift
  "$@" 2>&1
  rc=$?
  case $rc in
    0) echo "cases: 1 passed, 0 failed, 0 skipped" ;;
    77) echo "cases: 0 passed, 0 failed, 1 skipped" ;;
    *) echo "cases: 0 passed, 1 failed, 0 skipped" ;;
  esac
  exit $rc
fi
out=$("$@" 2>&1)
rc=$?
printf '%s\n' "$out"
skipped=$(grep -c '^ *SKIPPED:' <<<"$out")
if grep -q '^All tests passed' <<<"$out"; then
  total=$(sed -nE 's/^All tests passed .* in ([0-9]+) test cases?\)$/\1/p' <<<"$out" | tail -1)
  failed=0
else
  total=$(sed -nE 's/^test cases: *([0-9]+).*/\1/p' <<<"$out" | tail -1)
  failed=$(sed -nE 's/^test cases:.* ([0-9]+) failed.*/\1/p' <<<"$out" | tail -1)
fi
total=${total:-0} failed=${failed:-0}
if [ "$total" -eq 0 ]; then
  echo "no test case ran"
  [ "$rc" -eq 0 ] && rc=1
fi
# A crash leaves no summary: it counts as one failure.
[ "$rc" -ne 0 ] && [ "$failed" -eq 0 ] && failed=1 total=$((total > 0 ? total : 1))
passed=$((total - failed - skipped))
echo "cases: $((passed > 0 ? passed : 0)) passed, $failed failed, $skipped skipped"
if [ "$rc" -ne 0 ]; then
  [ "$rc" -eq 77 ] && rc=1
  exit "$rc"
fi
if [ "$skipped" -gt 0 ]; then exit 77; fi
exit 0
