#!/usr/bin/env bash
# Do the recipes learn what they promise? Each part trains with the seeds and for as long as stands
# below, on a cpu of two cores, and must reach what stands beside it on held-out data.
#
#   bench/learn.sh WT DATA [PART]...
#
# DATA has the folders that tools/fetch_data.sh fills. Parts; the first three are meant unless others
# are named:
#
#   fashion      3 seeds, 5 epochs: 90 % of the test images
#   charlm       3 seeds, 1000 steps: below 1.9 nats a byte; of the distinct words (three letters and
#                more) of 2000 bytes written at temperature 0.8 at least 60 % occur in the text
#   cifar        3 seeds, width 8: speedrun, an epoch of batches of 128, 65 %; resnet18, 400 steps of
#                64, 40 %
#   sdf          3 seeds, the default on seven meshes: surfaces 0.01 radii apart on average
#   pinn         3 seeds, the default: a relative L2 error of 0.001
#   fashion-long 1 seed, 15 epochs, mirrored: 93 %
#   charlm-long  1 seed, 4000 steps: below 1.5 nats a byte
#   resnet18     1 seed, width 16, 3 epochs of all of CIFAR-10: 70 %
#   translate    1 seed, docs/wt.md's small model, 4 epochs: BLEU higher after each of them
#
# Prints a table; loss is a recipe's own measure where it has no classes. The exit code says whether
# everything was reached.
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; }
case ${1:-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 2 ] || { usage >&2; exit 2; }
wt=$1 data=$2
shift 2
[ $# -gt 0 ] || set -- fashion charlm cifar
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-learn-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0 words=()
field() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$here/out"; }
words() { tr -cs 'A-Za-z' '\n' <"$1" | tr 'A-Z' 'a-z' | awk 'length >= 3' | sort -u; }
# verdict EXPRESSION: an awk condition
verdict() { if awk "BEGIN { exit !($1) }"; then echo ok; else echo "NOT REACHED" && return 1; fi; }
# learn NAME SEEDS KEY CONDITION ARGUMENTS...: a row for each seed; CONDITION is what the key's value
# must be, "< 1.9".
learn() {
  local name=$1 seeds=$2 key=$3 condition=$4 seed says accuracy
  shift 4
  for seed in $(seq "$seeds"); do
    "$wt" train "$@" --eval-batches 0 --seed "$seed" --quiet --out "$here/$name-$seed" >"$here/out"
    says=$(verdict "$(field "$key") $condition") || bad=1
    accuracy=$(field accuracy)
    printf '%-12s %5d %10.5g %10s %8.0f %8s\n' "$name" "$seed" "$(field eval_loss)" \
      "$([ -n "$accuracy" ] && printf %.4f "$accuracy" || echo -)" "$(field seconds)" "$says"
  done
}
text=$data/tinyshakespeare/input.txt

echo "$("$wt" --version), $(nproc) cores, $(date -u +%Y-%m-%d)"
printf '%-12s %5s %10s %10s %8s %8s\n' recipe seed loss accuracy seconds verdict
for part in "$@"; do
  case $part in
    fashion) learn fashion 3 accuracy ">= 0.9" fashion --data "$data/fashion-mnist" --epochs 5 ;;
    charlm) learn charlm 3 eval_loss "< 1.9" charlm --data "$text" --steps 1000 && words=(1 2 3) ;;
    cifar)
      learn speedrun 3 accuracy ">= 0.65" cifar --data "$data/cifar10" --set model=speedrun --set width=8 --batch 128 --epochs 1
      learn resnet18 3 accuracy ">= 0.4" cifar --data "$data/cifar10" --set model=resnet18 --set width=8 --batch 64 --steps 400
      ;;
    sdf) learn sdf 3 surface_distance "<= 0.01" sdf --data "$data/meshes" ;;
    pinn) learn pinn 3 relative_l2 "<= 0.001" pinn --data "$data/burgers" ;;
    fashion-long) learn fashion-long 1 accuracy ">= 0.93" fashion --data "$data/fashion-mnist" --set flip=true --epochs 15 ;;
    charlm-long) learn charlm-long 1 eval_loss "< 1.5" charlm --data "$text" --steps 4000 ;;
    resnet18) learn resnet18 1 accuracy ">= 0.7" cifar --data "$data/cifar10" --set model=resnet18 --set width=16 --epochs 3 ;;
    translate)
      learn translate 1 bleu "> 15" translate --data "$data/multi30k" --steps 1812 --warmup 400 --eval-every 453 --lr 2e-3 \
        --set layers=2 --set channels=128 --set heads=4 --set feed_forward=256 --set vocabulary=2000
      scores=$(sed -n 's/.*"bleu":\([0-9.]*\).*/\1/p' "$here/translate-1/metrics.jsonl" | xargs)
      says=$(awk -v s="$scores" 'BEGIN { n = split(s, v, " "); for (i = 2; i <= n; ++i) if (v[i] <= v[i - 1]) n = 0
        print n > 2 ? "ok" : "NOT REACHED" }')
      [ "$says" = ok ] || bad=1
      echo "BLEU after each epoch: $scores: $says"
      ;;
    *) echo "learn: no part $part" >&2; exit 2 ;;
  esac
done
[ ${#words[@]} -gt 0 ] || exit $bad
printf '\n%-12s %5s %10s %10s %8s\n' "" seed words known verdict
words "$text" >"$here/known"
for seed in "${words[@]}"; do
  "$wt" generate "$here/charlm-$seed" --bytes 2000 --temperature 0.8 --seed "$seed" >"$here/text"
  words "$here/text" >"$here/words"
  n=$(wc -l <"$here/words") known=$(comm -12 "$here/words" "$here/known" | wc -l)
  says=$(verdict "$n >= 100 && $known >= 0.6 * $n") || bad=1
  printf '%-12s %5d %10d %9.1f%% %8s\n' generate "$seed" "$n" \
    "$(awk "BEGIN { print 100 * $known / $n }")" "$says"
done
exit $bad
