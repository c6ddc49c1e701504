#!/usr/bin/env bash
# Row 30: wt bench overhead's row adam_launches: one step of the optimizer is fewer launches than there are
# tensors, a loop over the tensors several for each, with the same weights. Usage: adam_launches_test.sh WT
set -uo pipefail
out=$("$1" bench overhead --only adam_launches --calls 2 --json) || { echo "FAILED: $out"; exit 1; }
python3 - <<END || { echo "FAILED: $out"; exit 1; }
import json
fused, looped = [json.loads(line) for line in """$out""".splitlines()]
assert fused["shape"] == "64 x 64x64, fused" and looped["shape"] == "64 x 64x64, by tensor"
assert 1 <= fused["launches"] <= 4, fused["launches"]
assert looped["launches"] >= 64 * 6, looped["launches"]
assert abs(fused["check_loss"] / looped["check_loss"] - 1) < 1e-6
END
"$1" bench overhead --only adam_launches --calls 2 | grep -q ' launches a step' || { echo "FAILED: no launches"; exit 1; }
