#!/usr/bin/env bash
# Every subcommand of wt, by the lists that --help prints: it answers --help, and does something small, or is
# shown on a page whose commands tests/docs/commands_test.sh runs. One that has neither a row in the table
# nor a page fails, and so does a row of a command that is gone. Usage: every_command_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../../.." && pwd)
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-commands-XXXXXX")
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
. "$root/tests/support/tiny_fashion.sh"
tiny_fashion "$here/FOLDER" 80 20
cp "$root/tests/grade/add_good.cu" KERNEL.cu
cp "$root/labs/10_tape/solution.cpp" tape.cpp
bad=0
fail() { echo "FAILED: $*"; bad=1; }

# command: arguments, which end with exit code 0. The rows of the headline figures all run.
table='
info: --json
ops: --json
bench overhead: --calls 1 --json
bench loader: --data FOLDER --json
grade: KERNEL.cu --op add --variant thread_an_element
lab list:
lab start: 10
lab check: tape.cpp
lab hint: lab10_tape
lab report: tape.cpp --out report.html
lab table: report.html
lab pack: --out class --labs 10
'
pages=$(sed -nE 's/^    (wt [^#]*).*/\1/p' "$root"/{README,docs/wt,docs/memory}.md
  sed -n 's/^"$wt" /wt /p' "$root/tests/docs/commands_test.sh")

# commands PREFIX...: the leaves below it.
commands() {
  local help names name
  help=$("$wt" "$@" --help) || { fail "wt $* --help: exit code $?"; return; }
  names=$(awk '/^Subcommands:/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }' <<<"$help")
  if [ -z "$names" ]; then echo "$*"; fi
  for name in $names; do commands "$@" "$name"; done
}
commands >all
shown=0 ran=0
while read -r command; do
  row=$(grep -E "^$command:" <<<"$table")
  if [[ $command =~ ^(grade|lab .*)$ ]] && [ ! -e "${wt%/*}/grade/grade.conf" ]; then
    shown=$((shown + 1))  # a sanitized build has neither grader nor labs
  elif [ -n "$row" ]; then
    ran=$((ran + 1))
    # shellcheck disable=SC2086  # words
    "$wt" $command ${row#*:} >out 2>err </dev/null || fail "wt $command ${row#*:}: exit code $?: $(tail -5 err)"
    [ -s out ] || fail "wt $command ${row#*:} says nothing"
    [ "$command" != "bench overhead" ] || [ "$(grep -c '"bench":' out)" = 13 ] || fail "bench overhead: $(cat out)"
  elif grep -qE "^wt $command( |$)" <<<"$pages"; then
    shown=$((shown + 1))
  else
    fail "wt $command is neither in the table of $0 nor shown on a page of commands_test.sh"
  fi
done <all
while IFS=: read -r command _; do
  [ -z "$command" ] || grep -qxF "$command" all || fail "the table has wt $command, which is not there"
done <<<"$table"
[ $((shown + ran)) -ge 20 ] || fail "wt --help lists $((shown + ran)) commands"
echo "$ran commands run, $shown shown on pages"

# How many threads it takes: of the environment, unless an option says it.
threads() { env "$@" "$wt" info --json | sed -n 's/.*"threads":\([0-9]*\).*/\1/p'; }
[ "$(threads OMP_NUM_THREADS=3)" = 3 ] || fail "OMP_NUM_THREADS=3 is not 3 threads"
[ "$(threads OMP_NUM_THREADS=none)" = "$(threads -u OMP_NUM_THREADS)" ] || fail "OMP_NUM_THREADS=none is not the default"
if command -v taskset >/dev/null; then
  first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
  [ "$(taskset -c "$first" env -u OMP_NUM_THREADS "$wt" info --json | sed -n 's/.*"threads":\([0-9]*\).*/\1/p')" = 1 ] ||
    fail "on one processor (taskset) there is more than one thread"
fi
exit $bad
