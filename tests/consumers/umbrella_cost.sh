#!/usr/bin/env bash
# umbrella_cost.sh COMPILER INCLUDE GENERATED: what a program pays for #include <warptape/warptape.h>,
# beside one that includes <functional>, <memory>, <string> and <vector> alone (about 0.4 s). Compared
# is the memory that g++ takes for what it parses and instantiates: it goes with the time, and unlike
# that it is the same on every run and machine. Above 1.7 times, a public header has begun to include
# what only a .cpp needs: kernels' formulas, <map>, a std::unique_ptr (core/owned.h), a vector that is
# built, moved or freed in the header. Printed beside it: CPU seconds, which are to stay below one on
# an idle machine.
set -euo pipefail
compiler=${1:?} include=${2:?} generated=${3:?}
most=170  # per cent
macros=$("$compiler" -dM -E -x c++ /dev/null)  # its name may be c++
if ! grep -q __GNUC__ <<<"$macros" || grep -q __clang__ <<<"$macros"; then
  echo "SKIPPED: only g++ tells what its parsing took"
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf '#include <%s>\n' functional memory string vector >"$scratch/bare.cpp"
printf '#include <%s>\n' warptape/warptape.h >"$scratch/umbrella.cpp"
# kilobytes FILE
kilobytes() {
  "$compiler" -std=c++20 -O0 -fsyntax-only -ftime-report -I "$include" -I "$generated" "$1" \
    2>"$scratch/report" || { cat "$scratch/report"; exit 1; }
  awk '$1 == "TOTAL" {
         unit = substr($NF, length($NF)); n = $NF + 0
         print int(n * (unit == "G" ? 1048576 : unit == "M" ? 1024 : unit == "k" ? 1 : 1 / 1024)) }' "$scratch/report"
}
bare=$(kilobytes "$scratch/bare.cpp") umbrella=$(kilobytes "$scratch/umbrella.cpp")
if [ -z "$bare" ] || [ -z "$umbrella" ] || [ "$bare" -lt 10000 ]; then
  echo "SKIPPED: this compiler's -ftime-report has another form"
  exit 77
fi
TIMEFORMAT=%U
seconds=$({ time "$compiler" -std=c++20 -O0 -fsyntax-only -I "$include" -I "$generated" "$scratch/umbrella.cpp"; } 2>&1)
echo "warptape.h: $((umbrella / 1024)) MB in the compiler, $((umbrella * 100 / bare)) % of four standard headers; $seconds s"
if [ $((umbrella * 100)) -gt $((bare * most)) ]; then
  echo "FAILED: more than $most %. g++ -H shows who includes what"
  exit 1
fi
