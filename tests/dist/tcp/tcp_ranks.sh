# What tests of ranks that nobody started together share; they have $here.
pids=()
tidy() {
  [ ${#pids[@]} -eq 0 ] || kill -9 "${pids[@]}" 2>/dev/null
  rm -rf "$here"
}
trap tidy EXIT
# No launcher has started this script.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
for name in $(compgen -v | grep -E '^(OMPI|PMI|PMIX|MPI|MV2|SLURM|TORCHELASTIC)_'); do unset "$name"; done

# free_port: one that nobody listens at.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    grep -qi ":$(printf %04X $port) " /proc/net/tcp /proc/net/tcp6 2>/dev/null || break
  done
  echo $port
}
