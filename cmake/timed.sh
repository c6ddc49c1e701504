#!/usr/bin/env bash
# timed.sh LOG COMMAND...: runs a compiler, appends "user+system seconds, object, slowness" to LOG
# and returns what the compiler returned. A compilation of 10 s and more (WARPTAPE_SLOW_FILE)
# is followed by three of yardstick.cpp: slowness says how many times longer they took than on the
# machine for which budget.sh has its limits (slowness.sh): one machine differs from itself by half
# within minutes.
# When ccache answers from its cache nothing is measured: the figures of the compilation that filled
# the cache are looked up instead, so a warm cache hides no slow file. (A statistic "..._storage_hit"
# is no answer: it may be the list of what was compiled before.)
log=$1
shift
here=$(dirname "$0")
object=unknown
args=("$@")
for ((i = 0; i < ${#args[@]}; i++)); do
  if [ "${args[i]}" = -o ]; then object=${args[i + 1]}; fi
done
memory=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}/warptape-compile-times/${object//\//_}
stats=$(mktemp)
TIMEFORMAT='%U %S'

exec 3>&1 4>&2
export CCACHE_STATSLOG=$stats
spent=$({ time "$@" >&3 2>&4; } 2>&1)
rc=$?
seconds=$(awk '{printf "%.2f", $1 + $2}' <<<"${spent##*$'\n'}")
slow=1
if grep -qE '^(direct|preprocessed)_cache_hit' "$stats" 2>/dev/null; then
  [ -r "$memory" ] && read -r seconds slow <"$memory"
else
  if [ "${seconds%.*}" -ge "${WARPTAPE_SLOW_FILE:-10}" ]; then slow=$("$here/slowness.sh" 3); fi
  if [ -s "$stats" ] && [ $rc -eq 0 ]; then
    mkdir -p "${memory%/*}" && echo "$seconds $slow" >"$memory"
  fi
fi
rm -f "$stats"
echo "$seconds $object $slow" >>"$log"
exit $rc
