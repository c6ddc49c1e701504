#!/usr/bin/env bash
# jax.random.categorical with bfloat16 logits: a thousand equal classes, and half of them are hardly drawn.
#
# Expected: the logits are equal and exact in bfloat16, so each of 1000 classes gets about one draw in a thousand; the
# coarse type would at most blur probabilities that differ a little.
# Happens: the noise is made in the logits' dtype. A bfloat16 uniform number takes 128 values, so 1000 noisy logits
# share few values, the largest is nearly always a tie, and argmax takes the first of the tied. About 98 of 100 draws
# fall into the first 500 classes, and some of the last are never drawn. With float32 logits the draws are even.
# Seen with jax 0.10.2, 2026-11.
# Matters: who samples tokens from a model that computes in bfloat16 favours low token numbers, and no single draw
# looks wrong. Convert the logits to float32 before sampling.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 ml-dtypes==0.6.0
JAX_PLATFORMS=cpu "$work/venv/bin/python" - <<'EOF'
import sys

import jax
import jax.numpy as jnp
import numpy as np

classes, draws = 1000, 100_000
print(f"jax {jax.__version__}: {draws} draws among {classes} classes, every logit 0")
first = {}
for dtype in (jnp.float32, jnp.bfloat16):
    drawn = jax.random.categorical(jax.random.key(0), jnp.zeros(classes, dtype), shape=(draws,))
    count = np.bincount(np.asarray(drawn), minlength=classes)
    name = jnp.dtype(dtype).name
    first[name] = count[: classes // 2].sum() / draws
    print(f"{name:>8}: share of the first half {first[name]:.3f}, draws of class 0: {count[0]},"
          f" of class 999: {count[-1]}, classes never drawn: {(count == 0).sum()}")
values = len(np.unique(np.asarray(jax.random.uniform(jax.random.key(1), (draws,), jnp.bfloat16))))
print(f"distinct values of {draws} bfloat16 uniform numbers: {values}")
if not (abs(first["float32"] - 0.5) < 0.02 and first["bfloat16"] > 0.9):
    sys.exit("changed: bfloat16 logits no longer favour the first classes")
print("as described: equal bfloat16 logits, unequal draws")
EOF
