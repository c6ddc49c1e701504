"""The networks of gpu_steps.py, from the numbers that bench/steps/steps_models.h begins with; those of
nn/models.h are in named_models.py.

A parameter's seed is its place in the network, from 1; it lies in [-s, s), s = 1 / sqrt(inputs), a
bias as the weight before it; norms stay 1 and 0. mlp_small's weights lie as [in, out].
"""

import collections

import torch
from torch import nn
from torch.nn import functional as F

import common

CLASSES = 10
Made = collections.namedtuple("Made", "model x y optimizer clip shape flop")
Gpt = collections.namedtuple("Gpt", "layers heads channels context vocabulary batch")
SIZES = {
    "real": {
        "mlp_small": (784, 512, 128),
        "gpt": Gpt(12, 12, 768, 1024, 50304, 8),
        "charlm": Gpt(4, 4, 128, 128, 256, 16),
        "fashion": (28, 32, 128, 64),
    },
    "small": {
        "mlp_small": (20, 16, 8),
        "gpt": Gpt(2, 2, 32, 16, 64, 2),
        "charlm": Gpt(2, 2, 32, 16, 256, 2),
        "fashion": (16, 8, 32, 16),
    },
}


def hashes(n, seed, device):
    """common.uniform's, all at once."""
    i = torch.arange(1, n + 1, dtype=torch.int64, device=device) + seed * 1000003
    return (i * 2654435761) & 0xFFFFFFFF


def numbers(shape, seed, scale, device):
    h = hashes(torch.Size(shape).numel(), seed, device).double()
    return ((h / 4294967296.0 * 2 - 1) * scale).float().view(shape)


def indices(shape, seed, count, device):
    return (hashes(torch.Size(shape).numel(), seed, device) * count >> 32).view(shape)


def labels(n, device):
    return torch.arange(n, device=device) * 7 % CLASSES


@torch.no_grad()
def set_numbers(model, transposed=False):
    scale = 1.0
    for place, (name, p) in enumerate(model.named_parameters(), 1):
        if "norm" in name:
            continue
        if p.dim() > 1:
            scale = (p.numel() // p.shape[0]) ** -0.5
        shape = p.shape[::-1] if transposed else p.shape
        values = numbers(shape, place, scale, p.device)
        p.copy_(values.t() if transposed and p.dim() > 1 else values)
    return model


def make_mlp(sizes, device):
    n_in, hidden, batch = sizes
    layers = [nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(hidden, CLASSES)).to(device)
    set_numbers(model, transposed=True)
    flop = 2 * batch * (2 * n_in * hidden + 3 * (hidden * hidden + hidden * CLASSES))
    shape = f"{n_in}-{hidden}-{hidden}-{CLASSES} b{batch}"
    sgd = ("SGD", {"lr": common.LEARNING_RATE})
    return Made(model, numbers((batch, n_in), 101, 1, device), labels(batch, device), sgd, None,
                shape, flop)  # fmt: skip


class Cnn(nn.Module):
    def __init__(self, width, flat, hidden):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.fc1, self.fc2 = nn.Linear(flat, hidden), nn.Linear(hidden, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def make_fashion(sizes, device):
    image, width, hidden, batch = sizes
    flat = 2 * width * (image // 4) ** 2
    model = set_numbers(Cnn(width, flat, hidden).to(device))
    first, second = 9 * width * image**2, 9 * width * 2 * width * image**2 // 4
    flop = 2 * batch * (2 * first + 3 * (second + flat * hidden + hidden * CLASSES))
    shape = f"1-{width}-{2 * width} k3 bn pool {flat}-{hidden}-{CLASSES} b{batch}"
    adamw = ("AdamW", {"lr": common.ADAM_LEARNING_RATE, "weight_decay": 0.01})
    return Made(model, numbers((batch, 1, image, image), 101, 1, device), labels(batch, device),
                adamw, 1.0, shape, flop)  # fmt: skip


def rotated(x, cos, sin):
    """Pairs (i, i + E / 2) turned; 16 bits are computed in f32 and rounded once."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).type_as(x)


class Attention(nn.Module):
    def __init__(self, s, rotary):
        super().__init__()
        self.heads, self.rotary = s.heads, rotary
        self.qkv = nn.Linear(s.channels, 3 * s.channels)
        self.out = nn.Linear(s.channels, s.channels)
        if rotary:
            e = s.channels // s.heads
            rates = 10000.0 ** (-torch.arange(0, e, 2, dtype=torch.float64) / e)
            angles = torch.arange(s.context, dtype=torch.float64)[:, None] * rates
            self.register_buffer("cos", angles.cos().float())
            self.register_buffer("sin", angles.sin().float())

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (
            p.view(n, t, self.heads, c // self.heads).transpose(1, 2)
            for p in self.qkv(x).split(c, dim=2)
        )
        if self.rotary:
            q, k = rotated(q, self.cos, self.sin), rotated(k, self.cos, self.sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    def __init__(self, s, rotary, approximate):
        super().__init__()
        c = s.channels
        self.norm1, self.attention = nn.LayerNorm(c), Attention(s, rotary)
        self.norm2 = nn.LayerNorm(c)
        self.feed = nn.Sequential(
            nn.Linear(c, 4 * c), nn.GELU(approximate=approximate), nn.Linear(4 * c, c)
        )

    def forward(self, h):
        h = h + self.attention(self.norm1(h))
        return h + self.feed(self.norm2(h))


class GptModel(nn.Module):
    """rotary: charlm, else gpt, whose tokens' table gives the logits, too."""

    def __init__(self, s, rotary):
        super().__init__()
        self.token = nn.Embedding(s.vocabulary, s.channels)
        self.place = None if rotary else nn.Embedding(s.context, s.channels)
        blocks = (Block(s, rotary, "none" if rotary else "tanh") for _ in range(s.layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(s.channels)
        self.head = nn.Linear(s.channels, s.vocabulary) if rotary else None

    def forward(self, x):
        h = self.token(x)
        if self.place is not None:
            h = h + self.place.weight
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        logits = F.linear(h, self.token.weight) if self.head is None else self.head(h)
        return logits.flatten(0, 1)


def make_gpt(s, device, rotary):
    with torch.device(device):
        model = GptModel(s, rotary)
    set_numbers(model)
    tokens, c = s.batch * s.context, s.channels
    linears = s.layers * 12 * c * c + c * s.vocabulary
    flop = 2 * tokens * 3 * (linears + s.layers * c * (s.context + 1))
    shape = f"L{s.layers} H{s.heads} C{c} T{s.context} V{s.vocabulary} b{s.batch}"
    adamw = ("AdamW", {"lr": common.ADAM_LEARNING_RATE, "weight_decay": 0.1})
    return Made(model, indices((s.batch, s.context), 101, s.vocabulary, device),
                indices((tokens,), 102, s.vocabulary, device), adamw, 1.0, shape, flop)  # fmt: skip


def make(name, scale, device, batch=0, image=0):
    """Made of one network on a device; KeyError for an unknown name. batch, image: of a model by
    name; 0: the usual ones."""
    if name not in SIZES[scale]:
        import named_models

        return named_models.make(name, device, batch, image)
    sizes = SIZES[scale][name]
    if name == "mlp_small":
        return make_mlp(sizes, device)
    if name == "fashion":
        return make_fashion(sizes, device)
    return make_gpt(sizes, device, rotary=name == "charlm")
