#!/usr/bin/env bash
# timed.sh LOG COMMAND...: runs a compiler, appends "user+system seconds, object" to LOG and returns
# what the compiler returned. When ccache answers from its cache nothing is measured: the figure of
# the compilation that filled the cache is looked up instead, so a warm cache hides no slow file.
log=$1
shift
object=unknown
args=("$@")
for ((i = 0; i < ${#args[@]}; i++)); do
  if [ "${args[i]}" = -o ]; then object=${args[i + 1]}; fi
done
memory=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}/warptape-times/${object//\//_}
stats=$(mktemp)
TIMEFORMAT='%U %S'
exec 3>&1 4>&2
export CCACHE_STATSLOG=$stats
spent=$({ time "$@" >&3 2>&4; } 2>&1)
rc=$?
seconds=$(awk '{printf "%.2f", $1 + $2}' <<<"${spent##*$'\n'}")
if grep -q '_hit' "$stats" 2>/dev/null; then
  [ -r "$memory" ] && seconds=$(<"$memory")
elif [ -s "$stats" ] && [ $rc -eq 0 ]; then
  mkdir -p "${memory%/*}" && echo "$seconds" >"$memory"
fi
rm -f "$stats"
echo "$seconds $object" >>"$log"
exit $rc
