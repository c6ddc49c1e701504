#!/usr/bin/env bash
# docs/benchmarks.md is what bench/results gives, and the generator over small files: benchmarks_test.py.
set -uo pipefail
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
exec python3 -B "$(cd "${0%/*}" && pwd)/benchmarks_test.py"
