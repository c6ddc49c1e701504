#!/usr/bin/env bash
# gate_test.py as a ctest entry. Python is no dependency: without it the entry shows as skipped.
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
exec python3 "$(dirname "$0")/gate_test.py"
