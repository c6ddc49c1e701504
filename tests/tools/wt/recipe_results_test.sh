#!/usr/bin/env bash
# What docs/wt.md states of the recipes pinn, sdf and points at their reduced sizes, by the commands that stand
# there. Usage: recipe_results_test.sh PATH_OF_WT pinn|sdf|points
set -uo pipefail
wt=$1 part=$2
root=$(cd "${0%/*}/../../.." && pwd)
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-results-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
fail() { echo "FAILED: $*"; bad=1; }
value() { sed -nE "s/.*\"$1\":([0-9.eE+-]+).*/\1/p" "$here/json"; }
# at_most KEY LIMIT: of the last line
at_most() {
  awk -v v="$(value "$1")" -v most="$2" 'BEGIN { exit !(v != "" && v + 0 <= most + 0) }' ||
    fail "$1 is $(value "$1"), stated: at most $2"
}

# The command of the page that trains this recipe with more settings than data and folder.
command=$(sed -nE "s/^    wt (train $part --data synthetic [^#]*).*/\1/p" "$root/docs/wt.md" | head -n 1)
[ -n "$command" ] || { echo "FAILED: docs/wt.md has no command of $part on synthetic data"; exit 1; }
# shellcheck disable=SC2086  # words
(cd "$here" && exec "$wt" $command --quiet) >"$here/out" 2>"$here/err" || fail "wt $command: exit code $?: $(tail -3 "$here/err")"
tail -n 1 "$here/out" | tee "$here/json"
run=$here/$(sed -nE 's/.*--out ([^ ]+).*/\1/p' <<<"$command")
# Held-out samples are the same ones without the run's seed.
judged_again() {
  local was
  was=$(value "$1")
  "$wt" eval "$(ls "$run"/ckpt/step-*.safetensors | tail -n 1)" --json >"$here/json" || fail "wt eval: exit code $?"
  awk -v a="$was" -v b="$(value "$1")" 'BEGIN { exit !(a != "" && b != "" && (a - b) ^ 2 < 1e-12) }' ||
    fail "$1 of the run is $was, of wt eval $(value "$1")"
}
case $part in
  pinn)
    at_most relative_l2 0.1
    for f in field.html field.png report.html; do [ -s "$run/$f" ] || fail "no $f"; done
    grep -q "u at t = 0.75" "$run/field.html" || fail "field.html has no slice"
    "$wt" eval "$run" --json >"$here/json" || fail "wt eval: exit code $?"
    at_most relative_l2 0.1
    "$wt" eval "$run" --metrics accuracy >/dev/null 2>"$here/err"
    [ $? -eq 2 ] && grep -q "measures of its own" "$here/err" || fail "wt eval --metrics accuracy: $(cat "$here/err")"
    "$wt" eval "$run" --batch 7 >/dev/null 2>"$here/err"
    [ $? -eq 2 ] && grep -q "batches of its own" "$here/err" || fail "wt eval --batch: $(cat "$here/err")"
    ;;
  sdf)
    at_most sdf_error 0.01
    at_most surface_distance 0.02
    for f in surfaces.html surfaces.png surface-torus.obj; do [ -s "$run/$f" ] || fail "no $f"; done
    "$wt" data info "$run/surface-torus.obj" >/dev/null || fail "surface-torus.obj cannot be read"
    judged_again sdf_error
    ;;
  points)
    awk -v v="$(value accuracy)" 'BEGIN { exit !(v + 0 >= 0.9) }' || fail "accuracy is $(value accuracy), stated: 0.9"
    judged_again accuracy
    grep -q "torus" "$run/report.html" || fail "the report has no confusion matrix of the shapes"
    ;;
esac
exit $bad
