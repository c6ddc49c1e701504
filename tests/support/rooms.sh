#!/usr/bin/env bash
# rooms.sh [TREE]: folders that have grown too full, names of files that are none, and answers to
# "where is X?" (where_is.txt) that are no longer where their names say; exit code 1 if there are some.
#
# No folder has more than 45 files of its own. The public headers of a layer do not count: they are
# its table of contents, and users include them by these paths.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"
limit=45
# A file for each operator, with its cases; numbers of other libraries; programs side by side.
exempt='^(autograd/ops|tests/op_cases/cases|tests/reference(/.*)?|tools/examples|bench/results(/.*)?)$'

files() {
  if [ -e .git ]; then git -c core.quotePath=false ls-files --cached --others --exclude-standard; else find . -type f | sed 's#^\./##'; fi
}
# The shell's own words where there are thousands of files: a process for each is most of the time.
is_public() {  # core/tensor.h
  [[ $1 =~ ^(core|kernels|autograd|nn|optim|data|dist)/[^/]+\.h$ ]] || return 1
  local line
  while IFS= read -r line; do
    [[ $line != '#pragma once'* ]] || break
    [[ ! $line =~ Internal([^A-Za-z]|$) ]] || return 1
  done <"$1"
  return 0
}

bad=0
declare -A count=()
while read -r file; do
  if [[ $file =~ [^A-Za-z0-9_./+-] ]]; then
    echo "$file is no name for a file: letters, digits and _ . + - (did a script redirect into it?)"
    bad=1
  fi
  folder=${file%/*}
  [ "$folder" != "$file" ] || folder=.
  if [ ! -e "$file" ] || [[ $folder =~ $exempt ]] || is_public "$file"; then continue; fi
  count[$folder]=$((${count[$folder]:-0} + 1))
done < <(files)
while read -r folder; do
  [ "${count[$folder]}" -le $limit ] && continue
  echo "$folder has ${count[$folder]} files, at most $limit: a room by subject is missing"
  bad=1
done < <(printf '%s\n' "${!count[@]}" | sort)

questions=0
while IFS='|' read -r question path text; do
  case $question in '' | \#*) continue ;; esac
  questions=$((questions + 1))
  path=${path// /} text=${text# }
  if [ ! -f "$path" ]; then
    echo "where is $question? Not in $path, which is gone"
    bad=1
  elif ! grep -qiF -- "$text" "$path"; then
    echo "where is $question? $path does not have: $text"
    bad=1
  fi
done <tests/support/where_is.txt
if [ $questions -lt 40 ]; then
  echo "tests/support/where_is.txt: $questions questions, at least 40"
  bad=1
fi
exit $bad
