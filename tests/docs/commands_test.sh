#!/usr/bin/env bash
# The `wt` commands that README.md, docs/wt.md and docs/memory.md show, run in order in a folder that has the files
# they name; a training ends after two steps. Usage: commands_test.sh PATH_OF_WT
set -uo pipefail
wt=$1
root=$(cd "${0%/*}/../.." && pwd)
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-pages-XXXXXX")
trap 'rm -rf "$here"' EXIT
. "$root/tests/support/tiny_fashion.sh"

tiny_fashion "$here/FOLDER" 80 20
seq 6000 | tr '\n' ' ' | tee "$here/book.txt" >"$here/input.txt"
{ printf 'P5 40 40 255\n'; head -c 1600 /dev/zero; } >"$here/shoe.png"  # known by its first bytes
cd "$here" || exit 1
mkdir multi30k
for part in train:100 val:8; do
  seq "${part#*:}" | sed 's/.*/& dogs run/' >multi30k/${part%:*}.en
  seq "${part#*:}" | sed 's/.*/& Hunde laufen/' >multi30k/${part%:*}.de
done
mkdir -p cifar10 pictures/{ant,bee}
for part in data_batch_{1,2,3,4,5} test_batch; do head -c $((3073 * 40)) /dev/zero >"cifar10/$part.bin"; done
for name in pictures/{ant,bee}/{1,2,3,4}.ppm; do cp shoe.png "$name"; done
printf 'sa sb sc\nsd\n' >lines.txt
printf 'tc tb ta\ntd\n' >references.txt
export WT_MACHINE="$here/machine.tsv"
"$wt" bench kernels --only mse_forward --windows 1 --json | tee a.json >b.json
ran=0 bad=0
while IFS= read -r command; do
  case $command in
    "wt bench counters "* | "wt look "* | "wt step "*) [ -x "${wt%/*}/wt_race" ] || continue ;;
    "wt train "*) command="$(sed -E 's/ --steps [0-9]+//' <<<"$command") --steps 2" ;;
    "wt doctor "*) command="$command || [ \$? -eq 10 ]" ;;  # findings: this machine is slow or hot
    "wt tune "*) command="$command --device simt --output tune.tsv" ;;  # there is no GPU
  esac
  ran=$((ran + 1))
  if ! (eval "\"$wt\" ${command#wt }") >out 2>err </dev/null; then
    echo "FAILED: $command: $(cat err)"
    bad=1
  fi
done < <(sed -nE 's/^    (wt [^#]*[^# ]) *(#.*)?$/\1/p' "$root/README.md" "$root/docs/wt.md" \
  "$root/docs/memory.md")
echo "$ran commands of the pages run"
[ $ran -ge 6 ] || { echo "FAILED: fewer than the pages have"; bad=1; }
exit $bad
