#!/usr/bin/env bash
# polars' mean_horizontal of Int8 columns: the mean of 100 and 100 is -28.
#
# Expected: as mean, which gives a Float64 and adds in a wide type. sum of an Int8 column is an Int64 for this very
# reason, and list.sum and list.mean do the same.
# Happens: the columns are added in their own type first, the sum wraps, and only then it is divided and made Float64.
# sum_horizontal wraps too. The result's type is Float64 and there is no warning.
# Seen with polars 2.1.0, 2026-11.
# Matters: quantized features or scores of several annotators, kept as Int8, averaged across columns; the results stay
# in a range that nobody questions.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0
"$work/venv/bin/python" - <<'EOF'
import sys

import polars as pl

frame = pl.DataFrame({"a": [100, 10], "b": [100, 20]}, schema={"a": pl.Int8, "b": pl.Int8})
print(f"polars {pl.__version__}: rows {frame.rows()}, both columns Int8")
out = frame.select(
    across=pl.mean_horizontal("a", "b"), across_sum=pl.sum_horizontal("a", "b"),
    lists=pl.concat_list("a", "b").list.mean(), lists_sum=pl.concat_list("a", "b").list.sum())
for name, dtype in out.schema.items():
    print(f"{name:>10}: {out[name].to_list()} {dtype}")
down = pl.Series([100, 100], dtype=pl.Int8)
print(f"      down: sum {down.sum()}, mean {down.mean()}")
if (out["across"].to_list(), out["lists"].to_list(), down.mean()) != ([-28.0, 15.0], [100.0, 15.0], 100.0):
    sys.exit("changed: mean_horizontal of Int8 gives other values")
print("as described: across columns it wraps, in lists and down a column it does not")
EOF
