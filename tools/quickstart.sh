#!/usr/bin/env bash
# From a fresh clone to a trained model and its report: installs what is missing, builds the wt
# command and trains a small GPT on the text of this very tree.
#
#   tools/quickstart.sh [--with-cuda] [OPTIONS OF wt train ...]     e.g. --device simt --steps 50
#
# The cuda device is built where an NVIDIA driver answers, or with --with-cuda: compiling for it takes
# longer than everything else, and without a driver the training runs on the cpu anyway. The simt
# device is built where the options ask for it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' tools/quickstart.sh
  exit 0
fi
cuda=OFF simt=OFF options=()
for option in "$@"; do
  if [ "$option" = --with-cuda ]; then cuda=ON; else options+=("$option"); fi
  case $option in *simt*) simt=ON ;; esac
done
program=quickstart build=build/quickstart run=runs/quickstart
# shellcheck source=tools/checks.sh
source tools/checks.sh
# All that can be known before anything is installed, built or removed.
can_write $build 600
can_write $run 50
of_this_tree $build
resumed=0
case " ${options[*]} " in *" --resume"*) resumed=1 ;; esac
if [ $resumed = 0 ] && [ -e $run ] && [ ! -e $run/.quickstart ]; then
  stop "$run is not of this script: move it away (mv $run runs/mine), it would be replaced"
fi
alone $build
tools/setup.sh
if [ $cuda = ON ]; then
  echo "quickstart: building with the cuda device, as asked (a quarter of an hour on two cores)"
elif nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
  cuda=AUTO
  echo "quickstart: building; an NVIDIA driver answers, so with the cuda device if there is a toolkit"
else
  echo "quickstart: building without the cuda device, since no NVIDIA driver answers (--with-cuda: all the same)"
fi
explained cmake --preset release -B $build -DWARPTAPE_WITH_CUDA=$cuda -DWARPTAPE_WITH_SIMT=$simt \
  -DWARPTAPE_UNITY=ON -DWARPTAPE_BUILD_TESTS=OFF
explained cmake --build $build --target wt --parallel "$(nproc)"
echo "quickstart: training; the model and its report go to $run"
set -- "${options[@]}"
if [ $resumed = 0 ]; then  # begin anew, so that the command does the same every time
  rm -rf $run
  mkdir -p $run
  touch $run/.quickstart
fi
case " $* " in
  *" --steps"* | *" --epochs"*) ;;
  *) set -- --steps 400 "$@" ;;
esac
# A third of the recipe's own size: it is there within a minute.
$build/wt train charlm --out $run \
  --set layers=2 --set channels=64 --set context=64 "$@"
echo "quickstart: done. Open $run/report.html in a browser; next: $build/wt --help"
