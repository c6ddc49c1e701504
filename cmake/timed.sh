#!/usr/bin/env bash
# timed.sh LOG COMMAND...: runs a compiler, appends "user+system seconds, object, slowness" to LOG
# and returns what the compiler returned. A compilation of 10 s and more (WARPTAPE_SLOW_FILE)
# is followed by three of yardstick.cpp: slowness says how many times longer they took than on the
# machine for which budget.sh has its limits (slowness.sh): one machine differs from itself by half
# within minutes.
# When ccache answers from its cache nothing is measured: the figures of the compilation that filled
# the cache are looked up instead, so a warm cache hides no slow file. (A statistic "..._storage_hit"
# is no answer: it may be the list of what was compiled before.)
# Ten times as many compilations are answered as are made: then only rm is started here.
log=$1
shift
here=${0%/*}
object=unknown
args=("$@")
for ((i = 0; i < ${#args[@]}; i++)); do
  if [ "${args[i]}" = -o ]; then object=${args[i + 1]}; fi
done
memory=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}/warptape-compile-times/${object//\//_}
stats=${TMPDIR:-/tmp}/warptape-timed.$$
[ ! -e "$stats" ] || rm -f "$stats"  # of one that was killed
TIMEFORMAT='%U %S'

exec 3>&1 4>&2
export CCACHE_STATSLOG=$stats
spent=$({ time "$@" >&3 2>&4; } 2>&1)
rc=$?
seconds=${spent##*$'\n'} slow=1 said=
[ ! -e "$stats" ] || said=$(<"$stats")
hit=0
[[ $'\n'$said =~ $'\n'(direct|preprocessed)_cache_hit ]] && hit=1
if [ $hit = 1 ] && [ -r "$memory" ]; then
  read -r seconds slow <"$memory"
else
  seconds=$(awk '{printf "%.2f", $1 + $2}' <<<"$seconds")
fi
if [ $hit = 0 ]; then
  if [ "${seconds%.*}" -ge "${WARPTAPE_SLOW_FILE:-10}" ]; then slow=$("$here/slowness.sh" 3); fi
  if [ -n "$said" ] && [ $rc -eq 0 ]; then
    mkdir -p "${memory%/*}" && echo "$seconds $slow" >"$memory"
  fi
fi
[ ! -e "$stats" ] || rm -f "$stats"
echo "$seconds $object $slow" >>"$log"
exit $rc
