#!/usr/bin/env python3
"""JAX on the CPU: the whole step (loss, gradients, update) is one jitted call that donates what it
updates. mnist_cnn runs in NCHW and, as "nhwc", in NHWC.

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


def cnn(nhwc, window_s):
    layers, x, target = common.cnn_numbers()
    batch, image = common.CNN["batch"], common.CNN["image"]
    shapes = ((32, 1, 3, 3), (64, 32, 3, 3), (128, common.CNN_FLAT), (10, 128))
    order = ("NHWC", "HWIO", "NHWC") if nhwc else ("NCHW", "OIHW", "NCHW")
    params = []
    for (w, b), shape in zip(layers, shapes):
        w = np.array(w, np.float32).reshape(shape)
        if len(shape) == 4 and nhwc:
            w = w.transpose(2, 3, 1, 0)
        if len(shape) == 2:
            # The peers flatten channels first.
            if nhwc and shape[1] == common.CNN_FLAT:
                w = w.reshape(128, 64, 12, 12).transpose(0, 2, 3, 1).reshape(128, -1)
            w = w.T
        params.append((jnp.asarray(np.ascontiguousarray(w)), jnp.asarray(np.array(b, np.float32))))
    x = jnp.asarray(np.array(x, np.float32).reshape((batch, image, image, 1) if nhwc else
                                                    (batch, 1, image, image)))
    target = jnp.asarray(np.array(target, np.int32))

    def loss_of(params, x, target):
        h = x
        for w, b in params[:2]:
            h = jax.lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=order)
            h = jax.nn.relu(h + (b if nhwc else b[:, None, None]))
        window = (1, 2, 2, 1) if nhwc else (1, 1, 2, 2)
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, window, window, "VALID")
        h = h.reshape(batch, -1)
        h = jax.nn.relu(h @ params[2][0] + params[2][1])
        log_p = jax.nn.log_softmax(h @ params[3][0] + params[3][1])
        return -jnp.mean(jnp.take_along_axis(log_p, target[:, None], axis=1))

    def step_of(state, x, target):
        params, first, second, count = state
        loss, grads = jax.value_and_grad(loss_of)(params, x, target)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        rate = common.ADAM_LEARNING_RATE / (1 - 0.9**count)
        root = jnp.sqrt(1 - 0.999**count)
        params = jax.tree.map(
            lambda p, m, v: p - rate * m / (jnp.sqrt(v) / root + 1e-8), params, first, second
        )
        return (params, first, second, count), loss

    jitted = jax.jit(step_of, donate_argnums=0)
    zeros = jax.tree.map(jnp.zeros_like, params)
    held = {"state": (params, zeros, jax.tree.map(jnp.zeros_like, params), jnp.float32(0))}

    def step():
        held["state"], held["loss"] = jitted(held["state"], x, target)

    def sync():
        jax.block_until_ready((held["state"], held["loss"]))

    for _ in range(common.CHECK_STEPS):
        step()
    check = float(loss_of(held["state"][0], x, target))
    us, calls = common.windows(step, sync, window_s)
    return us, calls, check


for bench in args.bench:
    if bench == "mnist_cnn":
        for nhwc in (False, True):
            us, calls, check = cnn(nhwc, args.window_s)
            common.emit(
                common.row(
                    bench,
                    "jax jit" + (" nhwc" if nhwc else ""),
                    common.cnn_shape(),
                    us,
                    args.threads,
                    VERSIONS,
                    calls,
                    flop=common.cnn_flop(),
                    check_loss=check,
                )
            )
    elif bench in common.MLP:
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
