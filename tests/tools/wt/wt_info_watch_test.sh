#!/usr/bin/env bash
# Row 38: wt info --watch: a line a look where nobody can redraw, JSON, what is missing without a driver,
# a table on a terminal. Usage: wt_info_watch_test.sh PATH_OF_WT FAKE_NVML
set -uo pipefail
wt=$1 fake=$2
bad=0
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
fail() { echo "FAILED: $*"; bad=1; }

out=$(WT_CUBLASLT=libm.so.6 "$wt" info) || fail "exit code $?"
grep -qE '^  cublaslt +not used: (libm.so.6 is no cuBLASLt: it lacks cublasLtGetVersion|this build has no cuda)$' <<<"$out" ||
  fail "a library that is no cuBLASLt: $out"

out=$(WT_NVML=off "$wt" info --watch --count 2 --every 0.05) || fail "exit code $?"
[ "$(wc -l <<<"$out")" -eq 2 ] || fail "not a line a look: $out"
grep -qE '^cpu ([0-9]+ %|-) load .* MHz, memory .* GiB available, swap .* \| no gpu: WT_NVML=off$' <<<"$out" ||
  fail "without a driver: $out"

export WT_NVML=$fake FAKE_NVML=hot
out=$("$wt" info --watch --count 1 --every 0.05) || fail "with NVML: exit code $?"
grep -q '| gpu 0 97 % 20.0/80.0 GiB 1095/1980 MHz 88 C 612/700 W HELD DOWN: power: at its limit' <<<"$out" ||
  fail "with NVML: $out"
"$wt" info --watch --count 3 --every 0.02 --json >"$here/json" || fail "--json: exit code $?"
python3 - "$here/json" <<'END' || fail "--json: $(cat "$here/json")"
import json, sys
looks = [json.loads(line) for line in open(sys.argv[1])]
assert len(looks) == 3
for look in looks:
    assert look["gpus"][0]["sm_mhz"] == 1095 and look["gpus"][0]["slowed"], look
    assert look["gpus"][0]["throttle"] == ["power: at its limit", "heat: slowed by the driver"]
    busy = look["host"]["busy"]  # not known where no tick was counted meanwhile
    assert look["host"]["processors"] > 0 and (busy is None or 0 <= busy <= 1)
    assert look["seconds"] > 0 and look["own"]["resident"] > 0
END

# A terminal gets the table, over the one before.
if command -v script >/dev/null; then
  TERM=xterm script -qec "$wt info --watch --count 2 --every 0.05" /dev/null </dev/null >"$here/tty" ||
    fail "on a terminal: exit code $?"
  [ "$(grep -c 'HELD DOWN: power' "$here/tty")" -eq 4 ] || fail "on a terminal: $(cat -v "$here/tty")"
  [ "$(grep -ac $'\033\[H' "$here/tty")" -eq 2 ] || fail "it is not drawn again: $(cat -v "$here/tty")"
fi
# A reader that goes away ends it.
timeout 20 bash -c '"$0" info --watch --every 0.02 | head -1' "$wt" >/dev/null || fail "it goes on without a reader"
said=$( (trap '' PIPE; timeout 20 "$wt" info --watch --every 0.02 2>&1 >&3 || echo "exit code $?") 3> >(head -1 >/dev/null))
[ -z "$said" ] || fail "without a reader, SIGPIPE ignored: $said"
"$wt" info --every 2 >/dev/null 2>&1
[ $? -eq 2 ] || fail "--every without --watch: exit code is not 2"
exit $bad
