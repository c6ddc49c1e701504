"""What the Python peers share: the work's fixed numbers, the windows of P5.1 and the JSON line.

Every program of bench/peers does the same work from the same first numbers (`uniform`), so
`check_loss`, the loss after CHECK_STEPS steps, must agree between peers; gate.py compares it.
"""

import argparse
import json
import os
import statistics
import time

WINDOWS = 11
CHAIN = 100
CHECK_STEPS = 20
LEARNING_RATE = 0.01
BENCHES = (
    "tape_add",
    "mlp_tiny",
    "mlp_small",
    "mnist_cnn",
    "fashion_cnn",
    "gpt_small",
    "adam_step",
    "loader",
)
# Those of nn/models.h that named_models.py has.
NAMED_MODELS = ("resnet18_cifar", "mobilenet_v2", "pointnet", "gpt2_block", "resnet18", "resnet34",
                "resnet50", "mobilenet_v3_small", "efficientnet_b0")  # fmt: skip
MLP = {
    "mlp_tiny": {"sizes": (2, 16, 16, 1), "batch": 32, "loss": "mse"},
    "mlp_small": {"sizes": (784, 512, 512, 10), "batch": 128, "loss": "cross_entropy"},
}
# Two convolutions of 3 x 3 over 28 x 28, ReLU after each, pooling by 2, then two linear layers.
CNN = {"channels": (1, 32, 64), "image": 28, "hidden": 128, "classes": 10, "batch": 64}
CNN_FLAT = 64 * 12 * 12
ADAM_LEARNING_RATE = 1e-4  # AdamW without decay, betas 0.9 and 0.999, eps 1e-8


# Radford et al. 2019: learnt positions, biases, the exact GELU, an untied head.
GPT = {"layers": 4, "heads": 4, "channels": 128, "context": 64, "vocabulary": 256, "batch": 12}
GPT_WEIGHT_DECAY, GPT_CLIP = 0.1, 1.0
ADAM_TENSORS, ADAM_SIDE = 64, 512  # adam_step: so many square matrices


def uniform(n, seed, scale):
    """n floats in [-scale, scale), a hash of the index; peer_libtorch.cpp has the same function."""
    return [
        (((i + 1 + seed * 1000003) * 2654435761 % 2**32) / 2**32 * 2 - 1) * scale for i in range(n)
    ]


def mlp_numbers(bench):
    """([(weight [in][out], bias [out])], inputs, targets): flat lists; labels are ints."""
    spec = MLP[bench]
    sizes, batch = spec["sizes"], spec["batch"]
    layers = []
    for i, (n_in, n_out) in enumerate(zip(sizes, sizes[1:])):
        scale = n_in**-0.5
        layers.append((uniform(n_in * n_out, 2 * i + 1, scale), uniform(n_out, 2 * i + 2, scale)))
    x = uniform(batch * sizes[0], 101, 1.0)
    if spec["loss"] == "mse":
        target = uniform(batch * sizes[-1], 102, 1.0)
    else:
        target = [i * 7 % sizes[-1] for i in range(batch)]
    return layers, x, target


def mlp_shape(bench):
    spec = MLP[bench]
    return "-".join(map(str, spec["sizes"])) + f" b{spec['batch']}"


def mlp_flop(bench):
    """FLOP of the GEMMs of one step; the first layer's input needs no gradient."""
    sizes, batch = MLP[bench]["sizes"], MLP[bench]["batch"]
    per_row = [a * b for a, b in zip(sizes, sizes[1:])]
    return 2 * batch * (3 * sum(per_row) - per_row[0])


def cnn_numbers():
    """([(weight, bias)], inputs, labels): weights as [out][in][3][3] and [out][in], flat lists."""
    layers = []
    for n_out, fan_in in ((32, 9), (64, 288), (128, CNN_FLAT), (10, 128)):
        i, scale = len(layers), fan_in**-0.5
        layers.append((uniform(n_out * fan_in, 2 * i + 1, scale), uniform(n_out, 2 * i + 2, scale)))
    x = uniform(CNN["batch"] * CNN["image"] ** 2, 101, 1.0)
    return layers, x, [i * 7 % CNN["classes"] for i in range(CNN["batch"])]


def cnn_shape():
    return f"1-32-64 k3 pool {CNN_FLAT}-128-10 b{CNN['batch']}"


def cnn_flop():
    """FLOP of the products of one step; the first layer's input needs no gradient."""
    first, second = 32 * 9 * 26 * 26, 64 * 288 * 24 * 24
    return 2 * CNN["batch"] * (2 * first + 3 * (second + CNN_FLAT * 128 + 128 * 10))


FASHION_FLAT = 64 * 7 * 7
FASHION_WEIGHT_DECAY = 0.01


def fashion_numbers():
    """(flat lists: both convolutions' weights, both linear layers' weights and biases; inputs,
    targets)"""
    fans = ((32 * 9, 9), (64 * 288, 288), (128 * FASHION_FLAT, FASHION_FLAT), (128, FASHION_FLAT))
    fans += ((1280, 128), (10, 128))
    values = [uniform(n, i + 1, fan_in**-0.5) for i, (n, fan_in) in enumerate(fans)]
    x = uniform(CNN["batch"] * CNN["image"] ** 2, 101, 1.0)
    return values, x, [i * 7 % CNN["classes"] for i in range(CNN["batch"])]


def fashion_shape():
    return f"1-32-64 k3 bn pool {FASHION_FLAT}-128-10 b{CNN['batch']}"


def fashion_flop():
    first, second = 32 * 9 * 28 * 28, 64 * 288 * 14 * 14
    return 2 * CNN["batch"] * (2 * first + 3 * (second + FASHION_FLAT * 128 + 1280))


def hashed_bytes(n, seed):
    """n ints in [0, 256), of the same hash."""
    return [((i + 1 + seed * 1000003) * 2654435761 % 2**32) >> 24 for i in range(n)]


def gpt_numbers():
    """([(shape, flat list)] in the order of use, inputs, targets): layer norms are 1 and 0; the
    seed of any other parameter is its place in the list, from 1."""
    c, parameters = GPT["channels"], []

    def put(shape, scale):
        n = 1
        for size in shape:
            n *= size
        parameters.append((shape, uniform(n, len(parameters) + 1, scale)))

    def linear(n_in, n_out):
        put((n_out, n_in), n_in**-0.5)
        put((n_out,), n_in**-0.5)

    def norm():
        parameters.append(((c,), [1.0] * c))
        parameters.append(((c,), [0.0] * c))

    put((GPT["vocabulary"], c), 0.5)
    put((GPT["context"], c), 0.5)
    for _ in range(GPT["layers"]):
        norm()
        linear(c, 3 * c)
        linear(c, c)
        norm()
        linear(c, 4 * c)
        linear(4 * c, c)
    norm()
    linear(c, GPT["vocabulary"])
    n = GPT["batch"] * GPT["context"]
    return parameters, hashed_bytes(n, 101), hashed_bytes(n, 102)


def gpt_shape():
    g = GPT
    return (
        f"L{g['layers']} H{g['heads']} C{g['channels']} T{g['context']} V{g['vocabulary']} "
        f"b{g['batch']}"
    )


def gpt_flop():
    """FLOP of the products of one step; attention counts the pairs under the diagonal only."""
    c, t, tokens = GPT["channels"], GPT["context"], GPT["batch"] * GPT["context"]
    linear = GPT["layers"] * 12 * c * c + c * GPT["vocabulary"]
    attention = GPT["layers"] * c * (t + 1)
    return 2 * tokens * (3 * linear + attention + attention * 5 // 2)


def adam_shape():
    return f"{ADAM_TENSORS} x {ADAM_SIDE}x{ADAM_SIDE}"


def windows(step, sync, window_s, count=WINDOWS):
    """Runs `step` in windows of about `window_s`: ([us a call] of each window, calls a window)."""
    for _ in range(3):  # the first calls allocate, compile and page in
        step()
    sync()
    calls, took = 1, 0.0
    while took < window_s / 4:  # doubles as the warm-up
        calls *= 2
        start = time.perf_counter()
        for _ in range(calls):
            step()
        sync()
        took = time.perf_counter() - start
    calls = max(1, round(calls * window_s / took))
    out = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(calls):
            step()
        sync()
        out.append((time.perf_counter() - start) / calls * 1e6)
    return out, calls


def percentile(values, p):
    ordered = sorted(values)
    at = (len(ordered) - 1) * p
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def row(bench, impl, shape, us, threads, versions, calls, flop=None, check_loss=None):
    median = statistics.median(us)
    return {
        "bench": bench,
        "impl": impl,
        "device": "cpu",
        "shape": shape,
        "dtype": "f32",
        "median_us": round(median, 5),
        "p10_us": round(percentile(us, 0.1), 5),
        "p90_us": round(percentile(us, 0.9), 5),
        "min_us": round(min(us), 5),
        "gb_s": None,
        "tflop_s": round(flop / median / 1e6, 5) if flop else None,
        "roof": None,
        "ratio": None,
        "peak_bytes": None,
        "commit": os.environ.get("PEERS_COMMIT"),
        "machine": os.environ.get("PEERS_MACHINE"),
        "driver": None,
        "threads": threads,
        "windows": len(us),
        "calls": calls,
        "check_loss": check_loss,
        "versions": versions,
    }


def emit(line):
    print(json.dumps(line), flush=True)


def arguments(doc, modes):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=modes, action="append", help="default: every mode")
    parser.add_argument("--bench", choices=BENCHES, action="append", help="default: every row")
    parser.add_argument("--data", help="folder of Fashion-MNIST's IDX files, for loader")
    parser.add_argument("--window-s", type=float, default=0.1, help="seconds a window, 11 windows")
    args = parser.parse_args()
    args.mode = args.mode or list(modes)
    args.bench = args.bench or list(BENCHES)
    # Before numpy, torch or jax are imported: they read these once.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    # torch.compile keeps what it made in the ignored folder, and starts no pool of compilers.
    cache = os.path.join(os.path.dirname(os.path.abspath(__file__)), ".venv", "inductor")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    return args
