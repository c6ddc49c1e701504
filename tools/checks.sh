#!/usr/bin/env bash
# What can be wrong with a machine or a checkout, each in one line that says what to do. Sourced by
# setup.sh, quickstart.sh and test.sh, which set `program`, their name in these lines.

stop() {
  echo "${program:?}: $*" >&2
  exit 1
}

try_write() {
  local probe
  probe=$(mktemp "$1/.probe-XXXXXX") || return 1
  head -c 65536 /dev/zero >"$probe" || { rm -f "$probe"; return 1; }
  rm "$probe"
}
# can_write FOLDER ROOM: stops unless files can be made where FOLDER is or will be, and ROOM MiB are free
# for a folder that is still to be made. Tried: modes tell root nothing of a read-only or full disk.
can_write() {
  local folder=$1 why free
  until [ -d "$folder" ]; do folder=$(dirname "$folder"); done
  why=$(try_write "$folder" 2>&1) ||
    stop "cannot write to $folder (${why##*: }): use a checkout of your own, on a disk with room"
  free=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
  [ -d "$1" ] || [ "${free:-$2}" -ge "$2" ] ||
    stop "$folder has $free MiB free and $1 takes $2: free some, or make $1 a link to a larger disk"
}

# of_this_tree BUILD: stops where BUILD was configured for another source folder, or not for ninja.
of_this_tree() {
  local cache=$1/CMakeCache.txt home at with
  [ -e "$cache" ] || return 0
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
  [ -n "$home" ] || return 0  # of a configure that was cut short: cmake writes it anew
  at=$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$cache")
  with=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$cache")
  if [ ! "$home" -ef . ] || [ ! "$at" -ef "$1" ] || [ "$with" != Ninja ]; then
    stop "$1 was configured for $home, as $at, with $with: remove it (rm -r $1) or move it away, and run again"
  fi
}

# alone BUILD: stops while another of these scripts, or a ninja, is at work in BUILD. The lock is that of
# descriptor 9, which all that is started inherits: it ends with the last of them.
alone() {
  local at
  mkdir -p "$1"
  at=$(realpath "$1")
  exec 9>"$1/.in_use"
  if ! flock -n 9 || [ -n "$(find /proc/[0-9]*/fd -lname "$at/.ninja_log" -print -quit 2>/dev/null)" ]; then
    stop "another build is at work in $1: wait until it has ended"
  fi
}

# new_enough: stops where cmake or the compiler is there but too old. CMake 3.25 and g++ 12 are in
# Debian 12 and newer; older systems need them from elsewhere.
new_enough() {
  local version compiler=${CXX:-g++}
  if command -v cmake >/dev/null; then
    version=$(cmake --version | sed -nE '1s/[^0-9]*([0-9]+\.[0-9]+).*/\1/p')
    [ "$(printf '%s\n3.25\n' "$version" | sort -V | head -1)" = 3.25 ] ||
      stop "cmake is $version, 3.25 or newer is needed: pip install cmake, with its folder first in PATH"
  fi
  if command -v "$compiler" >/dev/null && [[ $("$compiler" --version) != *clang* ]]; then
    version=$("$compiler" -dumpversion)
    [ "${version%%.*}" -ge 12 ] ||
      stop "$compiler is $version, 12 or newer is needed: apt-get install g++-12, and run again with CXX=g++-12"
  fi
}

# cause TEXT: why what printed TEXT failed, and what to do.
cause() {
  local first
  if grep -qiE 'no space left on device|disk quota exceeded|enough free space' <<<"$1"; then
    echo "the disk is full (that of the build folder, of /tmp or of the packages): free some and run again"
  elif grep -qiE 'read-only file system|permission denied' <<<"$1"; then
    echo "a folder cannot be written: use a checkout of your own and run again"
  elif grep -qiE 'killed signal|virtual memory exhausted|cannot allocate memory' <<<"$1"; then
    echo "there was too little memory: end other programs and run again, what is built is kept"
  elif grep -qiE 'failed to fetch|could not (resolve|connect)|failure resolving|timed out' <<<"$1"; then
    echo "there is no network or no answer: see whether this machine is online, and run again"
  elif grep -qiE 'could not get lock|unable to (acquire|lock)' <<<"$1"; then
    echo "another program is installing packages: run again when it has ended"
  elif grep -qE '^sudo: ' <<<"$1"; then
    echo "sudo refuses: run tools/setup.sh as root"
  else
    first=$(grep -m1 -iE '(error|^E): ?' <<<"$1" || tail -1 <<<"$1")
    echo "it said first: ${first:-nothing}"
  fi
}

# explained COMMAND...: runs it, and says why in one line where it fails. `build` is where it works: CMake
# does not say that a disk was full, only what it then misses.
explained() {
  local said rc=0
  { said=$("$@" 2>&1 | while IFS= read -r line; do printf '%s\n' "$line" >&3; printf '%s\n' "$line"; done
    exit "${PIPESTATUS[0]}") || rc=$?; } 3>&1
  [ $rc -ne 0 ] || return 0
  if df -Pm "${build:?}" "${TMPDIR:-/tmp}" | awk 'NR > 1 && $4 < 16 { n++ } END { exit !n }'; then
    said="no space left on device"
  fi
  echo "${program:?}: $1 failed: $(cause "$said")" >&2
  return $rc
}
