#!/usr/bin/env bash
# numpy.sort of an ml_dtypes array (bfloat16, float8) that holds one NaN: the numbers come back unsorted.
#
# Expected: as for float32 and float16, NaN goes to the end and the numbers before it are in order.
# Happens: NaN compares as equal to everything, so it stays where it is and keeps elements on its two sides apart.
# [3, NaN, 1] is "sorted" to itself, [5, 4, NaN, 3, 2] to [4, 5, NaN, 2, 3], and argsort agrees. No warning says so, and
# max and argmax of the same array do see the NaN.
# Seen with ml_dtypes 0.6.0 and numpy 2.4.6, 2026-11.
# Matters: ranks, top-k, quantiles and unique of weights or losses in bfloat16, where one diverged element is enough.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check ml-dtypes==0.6.0 numpy==2.4.6
"$work/venv/bin/python" -W ignore - <<'EOF'
import sys

import ml_dtypes
import numpy as np

print("ml_dtypes", ml_dtypes.__version__, "numpy", np.__version__)
nan = float("nan")


def sorted_numbers(values, dtype):
    out = np.sort(np.array(values, dtype)).astype(np.float64)
    print(f"{np.dtype(dtype).name:>15}: sort({values}) = {out.tolist()}")
    out = out[~np.isnan(out)]
    return bool((out[1:] >= out[:-1]).all())


ok = True
for values in ([3, nan, 1], [5, 4, nan, 3, 2]):
    ok &= sorted_numbers(values, np.float32) and sorted_numbers(values, np.float16)
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        ok &= not sorted_numbers(values, dtype)
x = np.array([3, nan, 1], ml_dtypes.bfloat16)
print(f"of the first in bfloat16: argsort {np.argsort(x).tolist()}, max {np.max(x)}, argmax {np.argmax(x)}")
ok &= np.argsort(x).tolist() == [0, 1, 2] and bool(np.isnan(float(np.max(x))))
if not ok:
    sys.exit("changed: numbers beside a NaN are sorted now")
print("as described: one NaN leaves the numbers around it unsorted")
EOF
