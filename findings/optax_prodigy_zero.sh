#!/usr/bin/env bash
# optax.contrib.prodigy: one first step with a gradient of zero, and every parameter is NaN for good.
#
# Expected: a zero gradient gives a zero update, as in Adam and SGD, and the next gradient is used as usual.
# Happens: Prodigy estimates its step from a quotient of two sums over all gradients so far. Both are 0 after a first
# step without gradient, 0 / 0 is NaN, and the NaN goes into the state, the update and the parameters. A zero gradient
# in a later step does no harm.
# Seen with optax 0.2.8 and jax 0.10.2, 2026-11.
# Matters: the first batch has no gradient when all its labels are masked, or when the weight of a loss that is phased
# in is still 0. The data are fine and the loss of that step is finite.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 ml-dtypes==0.6.0
JAX_PLATFORMS=cpu "$work/venv/bin/python" - <<'EOF'
import sys

import jax
import jax.numpy as jnp
import optax

print("optax", optax.__version__, "jax", jax.__version__)


def loss(params, target, mask):  # a mean of squares over what the mask leaves
    return jnp.sum(mask * (params - target) ** 2) / jnp.maximum(jnp.sum(mask), 1)


def train(optimizer, masks):
    params = jnp.array([1.0, 2.0])
    state = optimizer.init(params)
    for mask in masks:
        gradient = jax.grad(loss)(params, jnp.zeros(2), jnp.array(mask))
        updates, state = optimizer.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params


nothing, everything = [0.0, 0.0], [1.0, 1.0]
as_described = True
for name, make in (("adam", lambda: optax.adam(0.1)), ("prodigy", optax.contrib.prodigy)):
    for order, masks in (("masked batch first", [nothing, everything, everything]),
                         ("masked batch second", [everything, nothing, everything])):
        params = train(make(), masks)
        print(f"{name:>8}, {order:>19}: parameters [1, 2] become {params.tolist()}")
        nan = bool(jnp.isnan(params).all())
        as_described &= nan == (name == "prodigy" and masks[0] is nothing)
if not as_described:
    sys.exit("changed: Prodigy bears a first gradient of zero, or something else does not")
print("as described: a first gradient of zero makes all NaN")
EOF
