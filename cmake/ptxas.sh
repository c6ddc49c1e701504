#!/usr/bin/env bash
# ptxas.sh FOLDER NVCC...: runs nvcc. All it says goes to FOLDER/x.cu.txt; of that the terminal does not
# see what ptxas -v tells of every kernel (registers, shared memory, stack): thousands of lines.
folder=$1 object=unknown
shift
args=("$@")
for ((i = 0; i < ${#args[@]}; i++)); do
  if [ "${args[i]}" = -o ]; then object=${args[i + 1]##*/}; fi
done
mkdir -p "$folder"
said=$folder/${object%.o}.txt
"$@" 2>"$said"
rc=$?
grep -vE '^ptxas info|^ +[0-9]+ bytes stack frame' "$said" >&2
exit $rc
