#!/usr/bin/env python3
"""PyTorch on the CPU.

eager: nn modules and optim.SGD or AdamW; fused: with fused=True; compile: the loss compiled, the
optimizer fused. loader has modes of its own. mnist_cnn and fashion_cnn run in NCHW and, as "nhwc",
with channels_last inputs and weights.
"""

import common

args = common.arguments(__doc__, ("eager", "fused", "compile"))

import torch  # noqa: E402  (after the thread counts are set)
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

VERSIONS = {"torch": torch.__version__}


def measure_steps(loss_of, x, target, optimizer, mode, window_s, clip=None):
    """Whole steps: (us, calls, the loss after CHECK_STEPS of them). Clips the norm if there is one."""
    if mode == "compile":
        loss_of = torch.compile(loss_of, fullgraph=True, dynamic=False)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def step():
        loss = loss_of(x, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()

    for _ in range(common.CHECK_STEPS):
        step()
    check = loss_of(x, target).item()
    us, calls = common.windows(step, lambda: None, window_s)
    return us, calls, check


def tape_add(window_s):
    one = torch.ones(1)
    leaf = torch.ones(1, requires_grad=True)

    def step():
        x = leaf
        for _ in range(common.CHAIN):
            x = x + one
        x.backward()
        leaf.grad = None

    return common.windows(step, lambda: None, window_s)


def mlp(bench, mode, window_s):
    spec = common.MLP[bench]
    layers, x, target = common.mlp_numbers(bench)
    modules = []
    for i, (weight, bias) in enumerate(layers):
        linear = nn.Linear(spec["sizes"][i], spec["sizes"][i + 1])
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight).view(spec["sizes"][i], -1).t())
            linear.bias.copy_(torch.tensor(bias))
        modules += [linear, nn.ReLU()]
    model = nn.Sequential(*modules[:-1])
    x = torch.tensor(x).view(spec["batch"], -1)
    if spec["loss"] == "mse":
        target = torch.tensor(target).view(spec["batch"], -1)
        criterion = F.mse_loss
    else:
        target = torch.tensor(target)
        criterion = F.cross_entropy

    def loss_of(inputs, wanted):
        return criterion(model(inputs), wanted)

    optimizer = torch.optim.SGD(model.parameters(), lr=common.LEARNING_RATE, fused=mode != "eager")
    return measure_steps(loss_of, x, target, optimizer, mode, window_s)


def cnn(bench, mode, nhwc, window_s):
    batch, image = common.CNN["batch"], common.CNN["image"]
    if bench == "fashion_cnn":
        values, x, target = common.fashion_numbers()
        model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(common.FASHION_FLAT, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )
        in_order = [model[0].weight, model[4].weight]
        in_order += [model[9].weight, model[9].bias, model[11].weight, model[11].bias]
        decay = common.FASHION_WEIGHT_DECAY
    else:
        model, in_order, values, x, target = mnist_model()
        decay = 0
    with torch.no_grad():
        for parameter, numbers in zip(in_order, values, strict=True):
            parameter.copy_(torch.tensor(numbers).view(parameter.shape))
    x = torch.tensor(x).view(batch, 1, image, image)
    target = torch.tensor(target)
    if nhwc:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)

    def loss_of(inputs, wanted):
        return F.cross_entropy(model(inputs), wanted)

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=common.ADAM_LEARNING_RATE, weight_decay=decay, fused=mode != "eager"
    )
    return measure_steps(loss_of, x, target, optimizer, mode, window_s)


def mnist_model():
    layers, x, target = common.cnn_numbers()
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(common.CNN_FLAT, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    modules = (model[0], model[2], model[6], model[8])
    in_order = [p for module in modules for p in (module.weight, module.bias)]
    values = [numbers for layer in layers for numbers in layer]
    return model, in_order, values, x, target


def gpt(mode, window_s):
    numbers, x, target = common.gpt_numbers()
    g = common.GPT
    c, heads = g["channels"], g["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.qkv, self.out = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
            self.norm2 = nn.LayerNorm(c)
            self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

        def forward(self, h):
            n, t = h.shape[:2]
            q, k, v = (
                p.view(n, t, heads, c // heads).transpose(1, 2)
                for p in self.qkv(self.norm1(h)).split(c, dim=2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + self.out(y.transpose(1, 2).reshape(n, t, c))
            return h + self.mlp(self.norm2(h))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(g["vocabulary"], c)
            self.positions = nn.Parameter(torch.empty(g["context"], c))
            self.blocks = nn.Sequential(*(Block() for _ in range(g["layers"])))
            self.norm, self.head = nn.LayerNorm(c), nn.Linear(c, g["vocabulary"])

        def forward(self, tokens):
            return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions)))

    model = Gpt()
    in_order = [model.tokens.weight, model.positions]
    for part in (*model.blocks, model.norm, model.head):
        in_order += list(part.parameters())
    with torch.no_grad():
        for parameter, (shape, values) in zip(in_order, numbers, strict=True):
            parameter.copy_(torch.tensor(values).view(shape))
    x = torch.tensor(x).view(g["batch"], g["context"])
    target = torch.tensor(target)

    def loss_of(inputs, wanted):
        return F.cross_entropy(model(inputs).view(-1, g["vocabulary"]), wanted)

    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=common.ADAM_LEARNING_RATE,
        weight_decay=common.GPT_WEIGHT_DECAY,
        fused=mode != "eager",
    )
    return measure_steps(loss_of, x, target, optimizer, mode, window_s, clip=common.GPT_CLIP)


def adam(mode, window_s):
    n, side = common.ADAM_TENSORS, common.ADAM_SIDE

    def hashed(seed, scale):
        i = torch.arange(1, side * side + 1, dtype=torch.int64) + seed * 1000003
        value = (i * 2654435761 % 2**32).double() / 2**32 * 2 - 1
        return (value * scale).float().view(side, side)

    parameters = [hashed(i + 1, 0.05).requires_grad_() for i in range(n)]
    grads = [hashed(i + 1001, 0.01) for i in range(n)]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=common.ADAM_LEARNING_RATE,
        weight_decay=common.GPT_WEIGHT_DECAY,
        fused=mode == "fused",
    )

    def step():
        for p, grad in zip(parameters, grads):  # as a backward leaves them
            p.grad = grad
        nn.utils.clip_grad_norm_(parameters, common.GPT_CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(common.CHECK_STEPS):
        step()
    check = sum(p.detach().abs().double().mean().item() for p in parameters) / n
    us, calls = common.windows(step, lambda: None, window_s)
    return us, calls, check


def rows(bench, mode):
    """(impl, shape, FLOP, what was measured) of each row of a benchmark in a mode."""
    impl, window_s = f"torch {mode}", args.window_s
    if bench in ("mnist_cnn", "fashion_cnn"):
        fashion = bench == "fashion_cnn"
        shape = common.fashion_shape() if fashion else common.cnn_shape()
        flop = common.fashion_flop() if fashion else common.cnn_flop()
        yield impl, shape, flop, cnn(bench, mode, False, window_s)
        yield impl + " nhwc", shape, flop, cnn(bench, mode, True, window_s)
    elif bench == "gpt_small":
        yield impl, common.gpt_shape(), common.gpt_flop(), gpt(mode, window_s)
    elif bench == "adam_step":
        if mode != "compile":  # it has no model
            yield impl, common.adam_shape(), None, adam(mode, window_s)
    elif bench == "tape_add":
        if mode == "eager":  # it has no optimizer, and compiled it has no tape
            us, calls = tape_add(window_s)
            per_add = [v / common.CHAIN for v in us]
            yield impl, f"chain{common.CHAIN} [1]", None, (per_add, calls, None)
    else:
        yield impl, common.mlp_shape(bench), common.mlp_flop(bench), mlp(bench, mode, window_s)


def main():
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    for bench in args.bench:
        if bench == "loader":
            if args.data and args.mode[0] == "eager":  # the loader has modes of its own
                import torch_loader

                torch_loader.measure(args.data, args.threads, VERSIONS)
            continue
        for mode in args.mode:
            for impl, shape, flop, (us, calls, check) in rows(bench, mode):
                common.emit(
                    common.row(
                        bench, impl, shape, us, args.threads, VERSIONS, calls,
                        flop=flop, check_loss=check,
                    )
                )


main()
