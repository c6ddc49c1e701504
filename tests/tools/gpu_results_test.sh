#!/usr/bin/env bash
# gpu_results_test.sh: tools/gpu_results.py over results that are made up, and over those that are committed.
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
exec python3 "$(dirname "$0")/gpu_results_test.py"
