#!/usr/bin/env python3
"""JAX on the CPU: the whole step (loss, gradients, SGD) is one jitted call that donates parameters.

There is no tape_add row: jit traces the chain once and compiles it away; no tape is left to time.
"""

import os

import common

args = common.arguments(__doc__, ("jit",))
os.environ["JAX_PLATFORMS"] = "cpu"
if args.threads == 1:
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " " + flags).strip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

VERSIONS = {"jax": jax.__version__, "numpy": np.__version__}


def mlp(bench, window_s):
    spec = common.MLP[bench]
    layers, x, target = common.mlp_numbers(bench)
    params = [
        (
            jnp.asarray(np.array(w, np.float32).reshape(spec["sizes"][i], -1)),
            jnp.asarray(np.array(b, np.float32)),
        )
        for i, (w, b) in enumerate(layers)
    ]
    x = jnp.asarray(np.array(x, np.float32).reshape(spec["batch"], -1))
    if spec["loss"] == "mse":
        target = jnp.asarray(np.array(target, np.float32).reshape(spec["batch"], -1))
    else:
        target = jnp.asarray(np.array(target, np.int32))

    def loss_of(params, x, target):
        h = x
        for w, b in params[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = params[-1]
        h = h @ w + b
        if spec["loss"] == "mse":
            return jnp.mean((h - target) ** 2)
        log_p = jax.nn.log_softmax(h)
        return -jnp.mean(jnp.take_along_axis(log_p, target[:, None], axis=1))

    def step_of(params, x, target):
        loss, grads = jax.value_and_grad(loss_of)(params, x, target)
        return jax.tree.map(lambda p, g: p - common.LEARNING_RATE * g, params, grads), loss

    jitted = jax.jit(step_of, donate_argnums=0)
    state = {"params": params}

    def step():
        state["params"], state["loss"] = jitted(state["params"], x, target)

    def sync():
        jax.block_until_ready((state["params"], state["loss"]))

    for _ in range(common.CHECK_STEPS):
        step()
    check = float(loss_of(state["params"], x, target))
    us, calls = common.windows(step, sync, window_s)
    return us, calls, check


for bench in args.bench:
    if bench != "tape_add":
        us, calls, check = mlp(bench, args.window_s)
        common.emit(
            common.row(
                bench,
                "jax jit",
                common.mlp_shape(bench),
                us,
                args.threads,
                VERSIONS,
                calls,
                flop=common.mlp_flop(bench),
                check_loss=check,
            )
        )
