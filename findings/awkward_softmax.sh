#!/usr/bin/env bash
# awkward's ak.softmax: NaN for two equal logits of 1000, and for two of -1000.
#
# Expected: every softmax of a numeric library subtracts the largest element first, so [1000, 1000] gives [0.5, 0.5]
# and adding a constant to all logits changes nothing.
# Happens: ak.softmax divides exp(x) by the sum of exp(x) as it stands. exp(1000) is infinite and the quotient NaN;
# exp(-1000) is 0 and the quotient NaN as well. In float32 it begins at 89. The only sign is numpy's RuntimeWarning.
# Seen with awkward 2.14.0, 2026-11.
# Matters: ak.softmax is for ragged lists, such as the scores of candidates or the attention over a variable number of
# hits, where logits of this size are no exception. Subtract ak.max(x, axis=-1, keepdims=True) before.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check awkward==2.14.0 numpy==2.4.6
"$work/venv/bin/python" - <<'EOF'
import sys

import awkward as ak
import numpy as np

print("awkward", ak.__version__)
as_described = True
for logits in (ak.Array([[1000.0, 1000.0], [0.0, 0.0, 0.0]]), ak.Array([[-1000.0, -1000.0], [0.0]]),
               ak.values_astype(ak.Array([[100.0, 99.0], [5.0]]), np.float32)):
    out = ak.softmax(logits, axis=-1)
    moved = ak.softmax(logits - ak.max(logits, axis=-1, keepdims=True), axis=-1)
    print(f"{logits.to_list()} {logits.type.content}: {out.to_list()}, after subtracting the largest:"
          f" {np.round(ak.flatten(moved), 3).to_list()}")
    as_described &= bool(np.isnan(out[0]).to_list() == [True, True] and ak.all(np.isfinite(ak.flatten(moved))))
    as_described &= bool(abs(ak.sum(out[1]) - 1) < 1e-6)
if not as_described:
    sys.exit("changed: ak.softmax is finite for large logits")
print("as described: NaN where the answer is an ordinary number")
EOF
