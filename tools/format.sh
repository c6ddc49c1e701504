#!/usr/bin/env bash
# Formats the C++ and CUDA files of the tree; --check only tells, exit code 1 if one would change.
# Version 14 (Debian 12's): other versions break lines elsewhere. Exit code 77: not installed.
#
#   tools/format.sh [--check]
set -euo pipefail
case ${1:-} in
  '' | --check) ;;
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  *) echo "format: unknown option $1 (there are --check, --help)" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || true)
if [ -z "$tool" ] && clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  tool=clang-format
fi
if [ -z "$tool" ]; then
  echo "format: clang-format 14 is not installed (apt-get install clang-format-14)" >&2
  exit 77
fi
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
folders=()
for folder in core kernels autograd nn optim data dist labs tests bench tools; do
  [ -d $folder ] && folders+=("$folder")
done
find "${folders[@]}" \( -name '.*' -o -name third_party \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r -n 16 -P 2 "$tool" "${mode[@]}"

# A banner is short, or the formatter tears it and what follows it is read as part of it.
if torn=$(grep -rnE '^ *// ---' --exclude-dir='.*' --include='*.h' --include='*.cpp' --include='*.cu' \
  --include='*.cuh' --include='*.inc' "${folders[@]}" | grep -vE ':[ ]*// --- .* ---$'); then
  printf 'format: a banner is one line, "// --- words ---":\n%s\n' "$torn" >&2
  exit 1
fi
