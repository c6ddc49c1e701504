#!/usr/bin/env bash
# Plants one-line faults and sees whether the suite finds them. The tree is a copy of a commit, built
# once, plain; each fault is compiled and linked beside it and run against the tests near it, then
# against the others, until one fails. A fault that does not compile (a warning is an error), or that
# changes no machine code, is drawn again. Exit code 1 below 95 % killed.
#
#   tools/mutate.sh [--count N] [--seed S] [--only PATTERN] [--jobs N] [--commit C] [--output FILE]
#                   [--update FILE]
#       84 faults drawn by seed 1 from the sources whose path the pattern fits, of HEAD. FILE gets
#       the result, also when it is stopped; tools/nightly.sh writes bench/results/mutants.txt.
#       --update FILE: faults that FILE calls killed stay so if their source has not changed since; a
#       stopped run goes on, and tests written for survivors are tried without all the others.
#   tools/mutate.sh --build DIR ... over your own sources and the wt_tests that DIR holds: no copy, no
#       result file, seconds a fault. Best without unity batches.
#   tools/mutate.sh --list ...      only prints what is drawn first
#   tools/mutate.sh --again N [--build DIR]
#       prints the committed result and its age, then sees whether N of its killed faults, chosen by
#       the commit's hash, are killed again, each by its test, over the tree built in DIR (build/ci).
#
# tools/mutants/faults.py says which faults there are; tests/mutants/equivalent.txt names those that
# are none. WT_MUTANTS_VERBOSE=1 shows what the compiler says.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case " $* " in
  *" -h "* | *" --help "*) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
esac
if ! command -v python3 >/dev/null; then
  echo "SKIPPED: python3 is not installed (tools/setup.sh --tests)"
  exit 77
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$here/mutants/main.py" "$@"
