#!/usr/bin/env bash
# budget.sh LOG: CPU seconds each target took to compile, and exit code 1 if one file is above its
# budget: 20 s for a host file, 30 s for a kernel file under the sanitizers (they double its time),
# twice 20 s for a unity batch, 45 s for one compiled by nvcc. (header_cost.sh: the headers.)
# On a machine that was x times slower while it compiled the file (timed.sh), x times as much. What
# is above is compiled once more, alone: compilations that share caches and cores take CPU seconds
# from each other that a small yardstick does not feel.
# Splitting a file or declaring a template elsewhere is the cure, a higher budget is not.
set -euo pipefail
log=${1:?}
if [ ! -s "$log" ]; then
  echo "nothing was compiled"
  exit 0
fi

# Objects whose newest line is above its budget, one a line; with -v show=1 all targets instead.
judge() {
  awk -v show="$1" '
    { line[$2] = $0 }
    END {
      sorter = "sort -rn"
      for (object in line) {
        n = split(line[object], word, " ")
        limit = 20; if (object ~ /[.]cu[.]o$/) limit = 45; else if (object ~ /Unity/) limit = 40
        else if (object ~ /kernels_(simt|cpu)_asan[.]dir/) limit = 30
        if (n > 2) limit *= word[3]
        target = object; sub(/^CMakeFiles\//, "", target); sub(/[.]dir\/.*/, "", target)
        total += word[1]; sum[target] += word[1]
        if (word[1] <= limit) continue
        over = 1
        if (show) printf "over budget: %.1f s, %.1f s allowed: %s\n", word[1], limit, object
        else print object
      }
      if (show) {
        for (t in sum) printf "%7.1f  %s\n", sum[t], t | sorter
        close(sorter)
        printf "%7.1f  CPU seconds in all\n", total
      }
      exit (show && over)
    }' "$log"
}

# again OBJECT: as the build in the log's folder compiles it, which adds a line to the log.
again() {
  local command
  command=$(ninja -C "$(dirname "$log")" -t commands "$1" 2>/dev/null | grep -F -- " -o $1" | tail -n 1) || return 0
  [ -n "$command" ] || return 0
  (cd "$(dirname "$log")" && CCACHE_RECACHE=1 bash -c "$command" >/dev/null 2>&1) || true
}
most=8  # more of them is no accident
mapfile -t above < <(judge 0)
if [ ${#above[@]} -gt 0 ] && [ ${#above[@]} -le $most ]; then
  for object in "${above[@]}"; do again "$object"; done
fi
judge 1
