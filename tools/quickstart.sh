#!/usr/bin/env bash
# From a fresh clone to a trained model and its report: installs what is missing, builds the wt
# command and trains a small GPT on the text of this very tree.
#
#   tools/quickstart.sh [OPTIONS OF wt train ...]     e.g. --device simt --steps 50
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' tools/quickstart.sh
  exit 0
fi
tools/setup.sh
echo "quickstart: building (a few minutes the first time)"
cmake --preset release
cmake --build build/release --target wt --parallel "$(nproc)"
echo "quickstart: training; the model and its report go to runs/quickstart"
case " $* " in
  *" --resume"*) ;;
  *) rm -rf runs/quickstart ;;  # begin anew, so that the command does the same every time
esac
case " $* " in
  *" --steps"* | *" --epochs"*) ;;
  *) set -- --steps 400 "$@" ;;
esac
# A third of the recipe's own size: it is there within a minute.
build/release/wt train charlm --out runs/quickstart \
  --set layers=2 --set channels=64 --set context=64 "$@"
echo "quickstart: done. Open runs/quickstart/report.html in a browser; next: build/release/wt --help"
