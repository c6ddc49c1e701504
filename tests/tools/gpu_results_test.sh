#!/usr/bin/env bash
# tools/gpu_results.py over folders of results that nobody measured: gpu_results_test.py.
set -uo pipefail
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
exec python3 -B "$(cd "${0%/*}" && pwd)/gpu_results_test.py"
