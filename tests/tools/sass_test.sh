#!/usr/bin/env bash
# tools/sass without a disassembler: tests/tools/sass_test.py.
set -uo pipefail
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
exec python3 -B "$(cd "${0%/*}" && pwd)/sass_test.py"
