#!/usr/bin/env bash
# blosc2's mean of float16: NaN for a hundred thousand ones.
#
# Expected: 1.0 as numpy says, which adds float16 in float32 for a mean; or infinity, if the sum overflows.
# Happens: the sum is kept in float16 and is infinite above 65504, and so is the number of elements that it is divided
# by, so the mean is NaN. The array is finite, ordinary and compressed without loss.
# Seen with blosc2 4.14.1 and numpy 2.4.6, 2026-11.
# Matters: compressed arrays of float16 activations or images are as long as that, and a NaN sends one to look for the
# element that is none. Give a dtype: mean(dtype="float32").
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check blosc2==4.14.1 numpy==2.4.6
"$work/venv/bin/python" -W ignore - <<'EOF'
import sys

import blosc2
import numpy as np

print("blosc2", blosc2.__version__, "numpy", np.__version__)
as_described = True
for n in (1000, 50_000, 66_000, 100_000):
    ones = np.ones(n, np.float16)
    array = blosc2.asarray(ones)
    assert np.array_equal(array[:], ones)
    mean, wide = float(array.mean()), float(array.mean(dtype=np.float32))
    print(f"{n:>6} ones in float16: mean {mean}, sum {float(array.sum())}; numpy's mean {float(ones.mean())};"
          f" mean in float32 {wide}")
    as_described &= (np.isnan(mean) if n > 65520 else True) and wide == 1.0
if not as_described:
    sys.exit("changed: the mean of many float16 numbers is a number")
print("as described: NaN from finite numbers")
EOF
