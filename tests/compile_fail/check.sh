#!/usr/bin/env bash
# check.sh COMPILER INCLUDE_DIR...: compiles each trap of traps.cpp by itself. What must not compile
# must be refused, for the reason that stands beside it.
set -u
compiler=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
file=$here/traps.cpp
command=("$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Werror=unused-result
  -Werror=unused-value)
for dir in "$@"; do command+=("-I$dir"); done
failed=0
# Clang says the same in other words: there only the line counts, and the headers are read each time.
clang=0
"$compiler" --version | grep -q clang && clang=1
# The headers once, not once a trap.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp "$here/traps.h" "$tmp/traps.h"
if [ $clang = 1 ]; then
  command+=(-include "$here/traps.h")
elif out=$("${command[@]}" -x c++-header -fno-syntax-only "$tmp/traps.h" -o "$tmp/traps.h.gch" 2>&1); then
  command+=(-include "$tmp/traps.h")
else
  printf 'FAILED: the headers do not compile:\n%s\n' "$out"
  failed=1
fi
if ! out=$("${command[@]}" "$file" 2>&1); then
  printf 'FAILED: what must compile does not:\n%s\n' "$out"
  failed=1
fi
traps=$(sed -nE 's/^#ifdef WT_TRAP_([a-z_]+)$/\1/p' "$file")
# A static_assert of the library is an error there, and the trap's line is named as what asked for it.
blames() { grep -qE "traps[.]cpp:$1:.*(error:|required from here|requested here)"; }

# All at once first, each in a scope of its own. What must be said of one trap has to stand in a message
# that begins with its line, or with what that line makes of a template; a line here is such a message.
awk '/^#ifdef WT_TRAP_/ { trap = 1 }
  trap && /^ *\/\/ error: / { sub(/\/\//, "{ //") }
  trap && /^#endif/ { held = held " }"; trap = 0 }
  NR > 1 { print held }
  { held = $0 }
  END { print held }' "$file" >"$tmp/traps.cpp"
"${command[@]}" -fno-diagnostics-show-caret "-f$([ $clang = 1 ] && echo error-limit || echo max-errors)=0" \
  $(sed 's/^/-DWT_TRAP_/' <<<"$traps") "$tmp/traps.cpp" 2>&1 |
  awk '
    function type() {
      if (/^In file included|^ +from |: In |:   +required /) return "before"
      return /: (fatal )?(error|warning): / ? "message" : "note"
    }
    { now = type() }
    NR > 1 && now != "note" && last != "before" { printf "\n" }
    { printf "%s ", $0; last = now }
    END { printf "\n" }' >"$tmp/all"

count=0 alone=0
for trap in $traps; do
  want=$(grep -A1 "^#ifdef WT_TRAP_$trap\$" "$file" | sed -nE 's|^ *// error: (.*)$|\1|p')
  line=$(($(grep -n "^#ifdef WT_TRAP_$trap\$" "$file" | cut -d: -f1) + 2))
  count=$((count + 1))
  said=$(grep -E ": error: " "$tmp/all" |
    grep -E "traps[.]cpp:$line:[0-9]+:( error:|   +required from here| note: .* requested here)")
  if [ -n "$said" ] && { [ $clang = 1 ] || grep -qF -- "$want" <<<"$said"; }; then continue; fi
  # By itself: a template's error is told once alone, and a reason may stand in a message of its own.
  alone=$((alone + 1))
  if out=$("${command[@]}" "-DWT_TRAP_$trap" "$file" 2>&1); then
    echo "FAILED: $trap compiles"
    failed=1
  elif [ $clang = 1 ] && blames "$line" <<<"$out"; then
    :
  elif ! blames "$line" <<<"$out" || ! grep -qF -- "$want" <<<"$out"; then
    printf 'FAILED: %s is refused, but not in line %s because of "%s":\n%s\n' "$trap" "$line" \
      "$want" "$out"
    failed=1
  fi
done
[ "$count" -gt 0 ] || { echo "FAILED: no trap found in $file"; failed=1; }
echo "$count traps, $alone of them compiled by themselves"
exit "$failed"
