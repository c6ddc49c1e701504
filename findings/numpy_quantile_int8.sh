#!/usr/bin/env bash
# numpy.quantile of int8 and int16: a quantile that is larger than every element.
#
# Expected: numpy.quantile(x, 0.5) is numpy.median(x), and no quantile leaves the range of the data. The result is
# float64, so the arithmetic should be too.
# Happens: the two neighbours are interpolated by their difference, and that difference is taken in the data's own
# type. 100 - (-100) is -56 in int8, and the quartiles of [-100, 100] are -114, 128 and 114: outside the data and not
# in order. The median says 0. int16 wraps in the same way. Several quantiles, or an axis, give no warning; a single
# quantile of a vector gives a RuntimeWarning. uint8 has no trouble, since the difference of sorted elements fits.
# Seen with numpy 2.4.6, 2026-11.
# Matters: clipping ranges for int8 quantization, audio in int16 and elevation maps are summed up by percentiles; the
# wrong value is plausible whenever the neighbours are less far apart. Convert to a float type first.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6
"$work/venv/bin/python" -W error - <<'EOF'
import sys

import numpy as np

print("numpy", np.__version__)
seen = {}
for dtype, values in ((np.int8, [-100, 100]), (np.int16, [-30000, 30000]), (np.uint8, [0, 200])):
    x = np.array(values, dtype)
    name = x.dtype.name
    seen[name] = np.quantile(x, [0.25, 0.5, 0.75]).tolist()
    print(f"{name:>5} {values}: quartiles {seen[name]}, of the same in float64"
          f" {np.quantile(x.astype(float), [0.25, 0.5, 0.75]).tolist()}, median {np.median(x)}")
if seen != {"int8": [-114.0, 128.0, 114.0], "int16": [-31384.0, 32768.0, 31384.0], "uint8": [50.0, 100.0, 150.0]}:
    sys.exit("changed: numpy.quantile of small signed integers gives other values")
print("as described: quartiles outside the data, without a warning (warnings are errors here)")
EOF
