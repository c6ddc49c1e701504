#!/usr/bin/env python3
"""Writes tools/examples/torch_losses.h: the losses of the examples' models in PyTorch.

    bench/peers/setup.sh && bench/peers/.venv/bin/python tools/generators/make_example_losses.py [FILE]

They are checked in, so no build needs Python. Each function is the model of the example of its
name, as PyTorch writes it: 20 steps in f64 from the parameters and data of
tools/examples/same_start.h, whose same_start() and numbers() are here once more.
"""

import copy
import math
import pathlib
import sys

import usage

usage.answer(__doc__)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

STEPS = 20
F64 = torch.float64


def numbers(shape, seed):
    n = math.prod(shape)
    i = torch.arange(n, dtype=F64) + 1000.0 * seed
    return torch.sin(0.37 * i * i).reshape(shape)


def same_start(net):
    net.double()
    with torch.no_grad():
        for k, (name, p) in enumerate(net.named_parameters()):
            u = numbers(p.shape, k)
            if p.ndim > 1:
                p.copy_(u * (1.5 / math.sqrt(p.numel() // p.shape[0])))
            elif name.endswith("weight"):  # a norm's
                p.copy_(1 + 0.1 * u)
            else:
                p.copy_(0.1 * u)
    return net


def bars(n, size, seed):
    rows = (numbers((n, size, 1), seed) > 0.7).to(F64)
    columns = (numbers((n, 1, size), seed + 1) > 0.7).to(F64)
    return torch.maximum(rows, columns)


def train(opt, loss_of):
    for step in range(STEPS):
        loss = loss_of(step)
        opt.zero_grad()
        loss.backward()
        opt.step()
        yield loss


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(64, 32)
        self.mean = nn.Linear(32, 4)
        self.log_var = nn.Linear(32, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 64))

    def forward(self, x, noise):
        h = torch.tanh(self.hidden(x))
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.exp(0.5 * log_var) * noise
        return self.decoder(z), mean, log_var


def vae():
    net = same_start(Vae())
    x = bars(48, 8, 100).flatten(1)

    def loss_of(step):
        logits, mean, log_var = net(x, numbers((48, 4), 200 + step))
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_var - mean.square() - log_var.exp())
        return (reconstruction + divergence) / x.shape[0]

    return train(torch.optim.Adam(net.parameters(), lr=3e-3), loss_of)


def dcgan():
    def up(i, o, stride, padding):
        return nn.ConvTranspose2d(i, o, 4, stride=stride, padding=padding, bias=False)

    def down(i, o, stride, padding):
        return nn.Conv2d(i, o, 4, stride=stride, padding=padding, bias=False)

    generator = same_start(nn.Sequential(
        up(8, 16, 1, 0), nn.BatchNorm2d(16), nn.ReLU(), up(16, 8, 2, 1), nn.BatchNorm2d(8),
        nn.ReLU(), up(8, 1, 2, 1), nn.Tanh()))
    discriminator = same_start(nn.Sequential(
        down(1, 8, 2, 1), nn.LeakyReLU(0.2), down(8, 16, 2, 1), nn.BatchNorm2d(16),
        nn.LeakyReLU(0.2), down(16, 1, 1, 0), nn.Flatten(0)))
    g_opt = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    d_opt = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    n = 16
    real, fake = torch.ones(n, dtype=F64), torch.zeros(n, dtype=F64)
    for step in range(STEPS):
        images = 2 * bars(n, 16, 100 + step).unsqueeze(1) - 1
        d_opt.zero_grad()
        real_loss = F.binary_cross_entropy_with_logits(discriminator(images), real)
        real_loss.backward()
        made = generator(numbers((n, 8, 1, 1), 200 + step))
        fake_loss = F.binary_cross_entropy_with_logits(discriminator(made.detach()), fake)
        fake_loss.backward()
        d_opt.step()
        g_opt.zero_grad()
        g_loss = F.binary_cross_entropy_with_logits(discriminator(made), real)
        g_loss.backward()
        g_opt.step()
        yield real_loss + fake_loss + g_loss


def wgan_gp():
    def perceptron(outputs):
        return same_start(nn.Sequential(
            nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2),
            nn.Linear(32, outputs)))

    def gradient_penalty(critic, real, fake, share):
        x = (share * real + (1 - share) * fake).requires_grad_()
        g, = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        return (g.norm(2, 1) - 1).square().mean()

    generator, critic = perceptron(2), perceptron(1)
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
    c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
    n, seed = 32, 100
    for step in range(STEPS):
        for _ in range(3):
            seed += 1
            angle = math.pi * numbers((n,), seed)
            real = torch.stack([torch.cos(angle), torch.sin(angle)], 1)
            with torch.no_grad():
                fake = generator(numbers((n, 2), 100 + seed))
            share = 0.5 + 0.5 * numbers((n, 1), 200 + seed)
            penalty = gradient_penalty(critic, real, fake, share)
            c_loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
            c_opt.zero_grad()
            c_loss.backward()
            c_opt.step()
        g_loss = -critic(generator(numbers((n, 2), 300 + seed))).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        yield c_loss


def maml():
    net = same_start(nn.Sequential(
        nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1)))
    tasks = 4

    def loss_of(step):
        amplitude = 3 + 2 * numbers((tasks,), 100 + step)
        phase = math.pi / 2 * (1 + numbers((tasks,), 200 + step))
        outer = 0
        for t in range(tasks):
            x = 5 * numbers((2, 10, 1), 300 + tasks * step + t)  # to adapt to, to be judged by
            y = amplitude[t] * torch.sin(x + phase[t])
            fast = dict(net.named_parameters())
            for _ in range(2):
                inner = F.mse_loss(torch.func.functional_call(net, fast, x[0]), y[0])
                grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
                fast = {name: p - 0.01 * g for (name, p), g in zip(fast.items(), grads)}
            outer = outer + F.mse_loss(torch.func.functional_call(net, fast, x[1]), y[1])
        return outer / tasks

    return train(torch.optim.Adam(net.parameters(), lr=1e-3), loss_of)


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = double_conv(1, 8), double_conv(8, 16)
        self.bottom = double_conv(16, 32)
        self.up2, self.up1 = double_conv(32 + 16, 16), double_conv(16 + 8, 8)
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        def up(t):
            return F.interpolate(t, scale_factor=2, mode="bilinear")

        skip1 = self.down1(x)
        skip2 = self.down2(F.max_pool2d(skip1, 2))
        x = self.bottom(F.max_pool2d(skip2, 2))
        x = self.up2(torch.cat([skip2, up(x)], 1))
        x = self.up1(torch.cat([skip1, up(x)], 1))
        return self.head(x)


def unet():
    net = same_start(Unet())
    n, size = 8, 24
    place = torch.arange(size, dtype=F64)
    middle = size / 2 + size / 4 * numbers((2, n, 1, 1), 100)
    radius = size / 4 + size / 8 * numbers((n, 1, 1), 101)
    squares = (place.unsqueeze(1) - middle[0]).square() + (place - middle[1]).square()
    mask = (squares < radius.square()).to(F64).unsqueeze(1)
    x = mask + numbers((n, 1, size, size), 102)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return train(opt, lambda _: F.binary_cross_entropy_with_logits(net(x), mask))


class Seq2Seq(nn.Module):
    def __init__(self, tokens, hidden):
        super().__init__()
        self.embed = nn.Embedding(tokens, hidden)
        self.encoder = nn.GRU(hidden, hidden, batch_first=True)
        self.decoder = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.head = nn.Linear(2 * hidden, tokens)

    def forward(self, source, target):
        memory, h = self.encoder(self.embed(source))
        keys = self.key(memory)
        logits = []
        for t in range(target.shape[1]):
            score = self.score(torch.tanh(self.query(h[-1]).unsqueeze(1) + keys))
            context = (torch.softmax(score, 1) * memory).sum(1, keepdim=True)
            word = self.embed(target[:, t : t + 1])
            output, h = self.decoder(torch.cat([word, context], -1), h)
            logits.append(self.head(torch.cat([output, context], -1)))
        return torch.cat(logits, 1)


def seq2seq_attention():
    tokens, n, length = 12, 16, 7
    net = same_start(Seq2Seq(tokens, 24))
    source = ((1 + numbers((n, length), 100)) * 5).to(torch.int64) + 2
    target = source.flip(1)
    begin = torch.ones((n, 1), dtype=torch.int64)
    seen = torch.cat([begin, target[:, :-1]], 1)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(STEPS):
        loss = F.cross_entropy(net(source, seen).flatten(0, 1), target.flatten())
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        yield loss


class VisionTransformer(nn.Module):
    def __init__(self, classes, size, patch, channels):
        super().__init__()
        count = (size // patch) ** 2
        self.patches = nn.Conv2d(1, channels, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, channels))
        self.places = nn.Parameter(torch.zeros(1, 1 + count, channels))
        layer = nn.TransformerEncoderLayer(channels, 4, 2 * channels, dropout=0.0,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.encoder(x)[:, 0]))


def vit():
    classes, n, size = 4, 32, 16
    net = same_start(VisionTransformer(classes, size, 4, 32))
    y = torch.arange(classes).repeat(n // classes)
    x = numbers((classes, 1, size, size), 100)[y] + numbers((n, 1, size, size), 101)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    for _ in range(STEPS):
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        yield loss


class Solution(nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, "in", nn.Linear(1, 24))
        self.mid = nn.Linear(24, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return x + x.square() * self.out(torch.tanh(self.mid(torch.tanh(getattr(self, "in")(x)))))


def second_derivatives():
    u = same_start(Solution())
    x = torch.linspace(0, 4, 40, dtype=F64).unsqueeze(1).requires_grad_()

    def residual():
        y = u(x)
        dy, = torch.autograd.grad(y.sum(), x, create_graph=True)
        ddy, = torch.autograd.grad(dy.sum(), x, create_graph=True)
        return (ddy + y).square().mean()

    opt = torch.optim.LBFGS(u.parameters(), max_iter=2, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        r = residual()
        r.backward()
        return r

    for _ in range(STEPS):
        yield opt.step(closure)


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x)
        return torch.round(x.clamp(-1, 1) / step) * step

    @staticmethod
    def backward(ctx, gy):
        x, = ctx.saved_tensors
        return gy * (x.abs() <= 1), None


class SwishFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x, beta)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, gy):
        x, beta = ctx.saved_tensors
        p = torch.sigmoid(beta * x)
        slope = p * (1 - p)
        return gy * (p + beta * x * slope), (gy * x.square() * slope).sum(0)


class QuantizedLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, Quantize.apply(self.weight, 0.125), self.bias)


class Swish(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return SwishFunction.apply(x, self.beta)


def custom_ops():
    net = same_start(nn.Sequential(
        QuantizedLinear(2, 24), Swish(24), QuantizedLinear(24, 24), Swish(24), nn.Linear(24, 1)))
    x = numbers((64, 2), 100)
    y = (x[:, :1] * x[:, 1:] > 0).to(F64)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    return train(opt, lambda _: F.binary_cross_entropy_with_logits(net(x), y))


class CartPole:
    """The pole-balancing problem of Barto, Sutton and Anderson (1983), with Gym's numbers."""

    def __init__(self):
        self.episode = 0
        self.reset()

    def reset(self):
        self.episode += 1
        self.x, self.v, self.angle, self.w = (0.05 * numbers((4,), 500 + self.episode)).tolist()

    def observation(self):
        return torch.tensor([self.x, self.v, self.angle, self.w], dtype=F64)

    def step(self, action):
        force = 10.0 if action == 1 else -10.0
        sin, cos = math.sin(self.angle), math.cos(self.angle)
        push = (force + 0.05 * self.w * self.w * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        a = push - 0.05 * turn * cos / 1.1
        self.x += 0.02 * self.v
        self.v += 0.02 * a
        self.angle += 0.02 * self.w
        self.w += 0.02 * turn
        return abs(self.x) > 2.4 or abs(self.angle) > math.pi / 15


def dqn():
    capacity, per_step, gamma = 256, 16, 0.95
    net = same_start(nn.Sequential(
        nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)))
    target = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    states, next_states = torch.zeros(capacity, 4, dtype=F64), torch.zeros(capacity, 4, dtype=F64)
    actions = torch.zeros(capacity, dtype=torch.int64)
    rewards, dones = torch.zeros(capacity, dtype=F64), torch.zeros(capacity, dtype=F64)
    pole, played = CartPole(), 0
    for step in range(STEPS):
        for _ in range(per_step):
            row = played % capacity
            states[row].copy_(pole.observation())
            chance = numbers((2,), 1000 + played).tolist()
            with torch.no_grad():
                action = net(states[row]).argmax().item()
            if chance[0] > 0.5:
                action = 1 if chance[1] > 0 else 0
            done = pole.step(action)
            next_states[row].copy_(pole.observation())
            actions[row] = action
            rewards[row] = 1
            dones[row] = 1 if done else 0
            if done:
                pole.reset()
            played += 1
        rows = ((0.5 + 0.5 * numbers((64,), 100 + step)) * min(played, capacity)).to(torch.int64)
        q = net(states[rows]).gather(1, actions[rows].unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = target(next_states[rows]).amax(1)
            wanted = rewards[rows] + gamma * (1 - dones[rows]) * best
        loss = F.smooth_l1_loss(q, wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), net.parameters()):
                old.lerp_(new, 0.1)
        yield loss


MODELS = [vae, dcgan, wgan_gp, maml, unet, seq2seq_attention, vit, second_derivatives, custom_ops,
          dqn]


def main():
    folder = pathlib.Path(__file__).resolve().parents[1] / "examples"
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "torch_losses.h"
    torch.set_num_threads(1)
    lines = [f"// Made by tools/generators/make_example_losses.py with PyTorch {torch.__version__}.",
             "#pragma once", "", "// clang-format off", "namespace torch_losses {", ""]
    for model in MODELS:
        losses = [repr(loss.item()) for loss in model()]
        lines.append(f"constexpr double {model.__name__}[{STEPS}] = {{")
        lines += ["    " + ", ".join(losses[i : i + 4]) + "," for i in range(0, STEPS, 4)]
        lines += ["};", ""]
    file.write_text("\n".join(lines + ["}  // namespace torch_losses"]) + "\n")


if __name__ == "__main__":
    main()
