#!/usr/bin/env bash
# Do the recipes learn what they promise? Three seeds each with default settings: fashion must reach
# 90 % of the test images in 5 epochs within 10 minutes, charlm end below 1.9 nats a byte on the last
# tenth of the text in 1000 steps within 15 minutes, and of the distinct words (three letters and
# more) of 2000 bytes that it writes at temperature 0.8 at least 60 % must occur in the text. With
# CIFAR_FOLDER also cifar's networks by name, at the size for two cores: speedrun, width 8, an epoch of
# batches of 128, must reach 65 % of the test images, resnet18, width 8, 400 steps of 64, 40 %.
#
#   bench/learn.sh WT FASHION_FOLDER TEXT_FILE [CIFAR_FOLDER]
#
# Prints a table; the exit code says whether everything was reached.
set -euo pipefail
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; }
case ${1:-} in -h | --help) usage; exit 0 ;; esac
[ $# -eq 3 ] || [ $# -eq 4 ] || { usage >&2; exit 2; }
wt=$1 fashion=$2 text=$3 cifar=${4:-}
here=$(mktemp -d "${TMPDIR:-/tmp}/wt-learn-XXXXXX")
trap 'rm -rf "$here"' EXIT
bad=0
field() { sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$here/out"; }
words() { tr -cs 'A-Za-z' '\n' <"$1" | tr 'A-Z' 'a-z' | awk 'length >= 3' | sort -u; }
# verdict EXPRESSION: an awk condition
verdict() { if awk "BEGIN { exit !($1) }"; then echo ok; else echo "NOT REACHED" && return 1; fi; }

echo "$("$wt" --version), $(nproc) cores, $(date -u +%Y-%m-%d)"
printf '%-8s %5s %10s %10s %8s %8s\n' recipe seed loss accuracy seconds verdict
for seed in 1 2 3; do
  "$wt" train fashion --data "$fashion" --epochs 5 --seed $seed --quiet >"$here/out"
  says=$(verdict "$(field accuracy) >= 0.9 && $(field seconds) < 600") || bad=1
  printf '%-8s %5d %10.4f %10.4f %8.0f %8s\n' fashion $seed "$(field eval_loss)" "$(field accuracy)" \
    "$(field seconds)" "$says"
done
for seed in 1 2 3; do
  "$wt" train charlm --data "$text" --steps 1000 --seed $seed --quiet --out "$here/$seed" >"$here/out"
  says=$(verdict "$(field eval_loss) < 1.9 && $(field seconds) < 900") || bad=1
  printf '%-8s %5d %10.4f %10.4f %8.0f %8s\n' charlm $seed "$(field eval_loss)" "$(field accuracy)" \
    "$(field seconds)" "$says"
done
cifar() {  # cifar MODEL ACCURACY ARGUMENTS...
  local model=$1 least=$2 seed says
  shift 2
  for seed in 1 2 3; do
    "$wt" train cifar --data "$cifar" --set model=$model --set width=8 "$@" --seed $seed --quiet >"$here/out"
    says=$(verdict "$(field accuracy) >= $least") || bad=1
    printf '%-8s %5d %10.4f %10.4f %8.0f %8s\n' $model $seed "$(field eval_loss)" "$(field accuracy)" \
      "$(field seconds)" "$says"
  done
}
if [ -n "$cifar" ]; then
  cifar speedrun 0.65 --batch 128 --epochs 1
  cifar resnet18 0.40 --batch 64 --steps 400
fi
printf '\n%-8s %5s %10s %10s %8s\n' "" seed words known verdict
words "$text" >"$here/known"
for seed in 1 2 3; do
  "$wt" generate "$here/$seed" --bytes 2000 --temperature 0.8 --seed $seed >"$here/text"
  words "$here/text" >"$here/words"
  n=$(wc -l <"$here/words") known=$(comm -12 "$here/words" "$here/known" | wc -l)
  says=$(verdict "$n >= 100 && $known >= 0.6 * $n") || bad=1
  printf '%-8s %5d %10d %9.1f%% %8s\n' generate $seed "$n" \
    "$(awk "BEGIN { print 100 * $known / $n }")" "$says"
done
exit $bad
