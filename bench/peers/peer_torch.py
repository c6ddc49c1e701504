#!/usr/bin/env python3
"""PyTorch on the CPU.

eager: nn modules and optim.SGD or AdamW; fused: with fused=True; compile: the loss compiled, the
optimizer fused. mnist_cnn runs in NCHW and, as "nhwc", with channels_last inputs and weights.
"""

import common

args = common.arguments(__doc__, ("eager", "fused", "compile"))

import torch  # noqa: E402  (after the thread counts are set)
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

VERSIONS = {"torch": torch.__version__}


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

    if mode == "compile":
        loss_of = torch.compile(loss_of, fullgraph=True, dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=common.LEARNING_RATE, fused=mode != "eager")

    def step():
        loss = loss_of(x, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(common.CHECK_STEPS):
        step()
    check = loss_of(x, target).item()
    us, calls = common.windows(step, lambda: None, window_s)
    return us, calls, check


def cnn(mode, nhwc, window_s):
    layers, x, target = common.cnn_numbers()
    batch, image = common.CNN["batch"], common.CNN["image"]
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
    with torch.no_grad():
        for module, (weight, bias) in zip((model[0], model[2], model[6], model[8]), layers):
            module.weight.copy_(torch.tensor(weight).view(module.weight.shape))
            module.bias.copy_(torch.tensor(bias))
    x = torch.tensor(x).view(batch, 1, image, image)
    target = torch.tensor(target)
    if nhwc:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)

    def loss_of(inputs, wanted):
        return F.cross_entropy(model(inputs), wanted)

    if mode == "compile":
        loss_of = torch.compile(loss_of, fullgraph=True, dynamic=False)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=common.ADAM_LEARNING_RATE, weight_decay=0, fused=mode != "eager"
    )

    def step():
        loss = loss_of(x, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(common.CHECK_STEPS):
        step()
    check = loss_of(x, target).item()
    us, calls = common.windows(step, lambda: None, window_s)
    return us, calls, check


def main():
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    for bench in args.bench:
        for mode in args.mode:
            if bench == "tape_add":
                if mode == "eager":  # it has no optimizer, and compiled it has no tape
                    us, calls = tape_add(args.window_s)
                    common.emit(
                        common.row(
                            bench,
                            "torch eager",
                            f"chain{common.CHAIN} [1]",
                            us,
                            args.threads,
                            VERSIONS,
                            calls,
                            divide=common.CHAIN,
                        )
                    )
                continue
            if bench == "mnist_cnn":
                for nhwc in (False, True):
                    us, calls, check = cnn(mode, nhwc, args.window_s)
                    common.emit(
                        common.row(
                            bench,
                            f"torch {mode}" + (" nhwc" if nhwc else ""),
                            common.cnn_shape(),
                            us,
                            args.threads,
                            VERSIONS,
                            calls,
                            flop=common.cnn_flop(),
                            check_loss=check,
                        )
                    )
                continue
            us, calls, check = mlp(bench, mode, args.window_s)
            common.emit(
                common.row(
                    bench,
                    f"torch {mode}",
                    common.mlp_shape(bench),
                    us,
                    args.threads,
                    VERSIONS,
                    calls,
                    flop=common.mlp_flop(bench),
                    check_loss=check,
                )
            )


main()
