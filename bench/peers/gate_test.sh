#!/usr/bin/env bash
# gate_test.py as a ctest entry. Python is no dependency: without it the entry shows as skipped.
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
dir=$(dirname "$0")
python3 "$dir/gate_test.py" && exec python3 "$dir/gpu_steps_test.py"
