#!/usr/bin/env bash
# What fetch_data.sh and fetch_weights.sh have in common: files that get their names once they are whole and
# right. Sourced by both, which set `name`, theirs in messages. Sets `code`, the exit code: 3 counts before 1.

if ! command -v curl >/dev/null && ! command -v wget >/dev/null; then
  echo "${name:?}: needs curl or wget (apt-get install curl)" >&2
  exit 2
fi

code=0
worse() { [ "$1" -le $code ] || code=$1; }

# right FILE SHA BYTES: whether it is what it should be; else `why` says what is wrong.
right() {
  local bytes sum
  bytes=$(stat -c %s "$1" 2>/dev/null) || { why="it cannot be read"; return 1; }
  if [ "$3" != - ] && [ "$bytes" != "$3" ]; then
    why="it has $bytes bytes, expected $3"
    return 1
  fi
  [ "$2" != - ] || return 0
  sum=$(sha256sum <"$1" | cut -d' ' -f1)
  # Of some files the first digits alone are published.
  [ "${sum:0:${#2}}" = "$2" ] || { why="its SHA-256 is $sum, expected $2"; return 1; }
}

# get URL PART: goes on with what PART has.
get() {
  if command -v curl >/dev/null; then
    curl --fail --location --silent --show-error --retry 3 --connect-timeout 20 --continue-at - \
      --output "$2" "$1"
  else
    wget --quiet --tries 3 --connect-timeout 20 --continue --output-document "$2" "$1"
  fi
}

# attempt URL PART SHA BYTES: sets `result` to refused (PART is gone), no_range (the server cannot go
# on with PART, or has less) or unreachable (PART stays, for the next time).
attempt() {
  local rc
  get "$1" "$2"
  rc=$?
  if [ $rc -eq 0 ]; then
    right "$2" "$3" "$4" && return 0
    rm -f "$2"
    result=refused
  else
    case $rc in 8 | 22 | 33 | 36) result=no_range ;; *) result=unreachable ;; esac
  fi
  return 1
}

# download URL PART FILE SHA BYTES: into PART, whole and right; else says why not, and where FILE goes.
download() {
  local url=$1 part=$2 file=$3 sha=$4 bytes=$5 begun=
  mkdir -p "${part%/*}" || { worse 1; return 1; }
  if [ -s "$part" ]; then
    begun=yes
    [ "$sha$bytes" != -- ] && right "$part" "$sha" "$bytes" && return 0
  fi
  attempt "$url" "$part" "$sha" "$bytes" && return 0
  if [ -n "$begun" ] && [ $result != unreachable ]; then  # what was begun may be of another file
    rm -f "$part"
    attempt "$url" "$part" "$sha" "$bytes" && return 0
  fi
  if [ $result = refused ]; then
    echo "${name:?}: $url is refused: $why" >&2
    worse 3
  else
    echo "${name:?}: $url cannot be downloaded" >&2
    echo "  Without the internet: get it elsewhere and put it at $file" >&2
    worse 1
  fi
  return 1
}

# settle PART FILE SHA: gives it its name.
settle() {
  mv -f "$1" "$2" || { worse 1; return; }
  if [ "$3" = - ]; then
    echo "$2: its size is right; no check sum of it is known"
  elif [ ${#3} -lt 64 ]; then
    echo "$2: its SHA-256 begins with $3; no more of it is known"
  else
    echo "$2: right"
  fi
}

# Whether the file of a row is there; a wrong one is nobody's business but the user's, and sets `wrong`.
there() {
  wrong=
  [ -e "$1" ] || return 1
  if right "$1" "$2" "$3"; then
    echo "$1: is there, and right"
  else
    echo "${name:?}: $1 is there and is not what it should be: $why" >&2
    echo "  Move it away to have it fetched" >&2
    wrong=yes
    worse 3
  fi
}

