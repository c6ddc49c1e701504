#!/usr/bin/env bash
# wt bench overhead's row watched_step: a step as it is, profiled, recorded and examined, in turns, each
# beside the bare one. Usage: watched_step_test.sh WT
set -uo pipefail
out=$("$1" bench overhead --only watched_step --calls 1 --json) || { echo "FAILED: $out"; exit 1; }
python3 - <<END || { echo "FAILED: $out"; exit 1; }
import json
rows = [json.loads(line) for line in """$out""".splitlines()]
ways = [r["shape"].split(", ", 1)[1] for r in rows]
assert ways == ["bare", "profiled", "recorded, N = 10", "examined"], ways
assert rows[0]["of_bare"] == 1
for r in rows[1:]:
    assert abs(r["of_bare"] - r["median_us"] / rows[0]["median_us"]) < 1e-6 * r["of_bare"]
END
exit 0
