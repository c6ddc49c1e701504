#!/usr/bin/env python3
"""Writes tests/reference/weights/*.safetensors: state dicts that PyTorch saved, and what its models
make of an input.

    bench/peers/setup.sh && bench/peers/.venv/bin/python tools/generators/make_weights_reference.py [FOLDER]

NAME.safetensors is the state dict as tools/convert_pt.py makes it of torch.save's file, NAME_io.safetensors
holds the input `x` and the outputs: `y` in evaluation, `y_train` in training mode (dropout is off).
`resnet` has the names of torchvision's ResNet, `gpt` those of a hand-made GPT-2 with tied embeddings and
a mask as buffer, `gpt_encoder` is made of PyTorch's own TransformerEncoder. All three have taken a few
steps of SGD, so that running statistics and counts are those of training. tiny.pt and tiny_legacy.pt
are what torch.save writes, today and before 1.6: the readers must refuse them.
"""

import pathlib
import subprocess
import sys
import tempfile

import usage

usage.answer(__doc__)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests" / "reference" / "weights")


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8, 1), BasicBlock(8, 8, 1))
        self.layer2 = nn.Sequential(BasicBlock(8, 12, 2), BasicBlock(12, 12, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(12, 5)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(self.layer2(self.layer1(x))).flatten(1))


CONTEXT, CHANNELS, HEADS, WORDS = 8, 16, 2, 24


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(CHANNELS, 3 * CHANNELS)
        self.c_proj = nn.Linear(CHANNELS, CHANNELS)
        self.register_buffer("bias", torch.ones(CONTEXT, CONTEXT).tril().bool().view(1, 1, CONTEXT, CONTEXT))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (y.view(n, t, HEADS, c // HEADS).transpose(1, 2) for y in self.c_attn(x).split(c, 2))
        scores = q @ k.transpose(-2, -1) / (c // HEADS) ** 0.5
        scores = scores.masked_fill(~self.bias[:, :, :t, :t], float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(CHANNELS, 4 * CHANNELS)
        self.c_proj = nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(CHANNELS)
        self.attn = Attention()
        self.ln_2 = nn.LayerNorm(CHANNELS)
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(WORDS, CHANNELS),
                "wpe": nn.Embedding(CONTEXT, CHANNELS),
                "h": nn.ModuleList(Block() for _ in range(2)),
                "ln_f": nn.LayerNorm(CHANNELS),
            }
        )
        self.lm_head = nn.Linear(CHANNELS, WORDS, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, x):
        t = self.transformer
        h = t["wte"](x) + t["wpe"](torch.arange(x.shape[1]))
        for block in t["h"]:
            h = block(h)
        return self.lm_head(t["ln_f"](h))


class GptEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(WORDS, CHANNELS)
        self.position = nn.Parameter(torch.randn(CONTEXT, CHANNELS) * 0.1)
        layer = nn.TransformerEncoderLayer(
            CHANNELS, HEADS, 32, 0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 2, nn.LayerNorm(CHANNELS), enable_nested_tensor=False)
        self.head = nn.Linear(CHANNELS, WORDS)

    def forward(self, x):
        t = x.shape[1]
        hidden = torch.ones(t, t).triu(1).bool()
        return self.head(self.blocks(self.token(x) + self.position[:t], mask=hidden))


def write(name, value):
    with tempfile.TemporaryDirectory() as scratch:
        torch.save(value, f"{scratch}/{name}.pt")
        command = [ROOT / "tools" / "convert_pt.py", f"{scratch}/{name}.pt", "--force"]
        subprocess.run([sys.executable, *command, "--output", FOLDER / f"{name}.safetensors"], check=True)


def model(name, m, x, classes):
    optimizer = torch.optim.SGD(m.parameters(), lr=0.2, momentum=0.9)
    for _ in range(5):
        y = m(x)
        target = torch.randint(0, classes, y.shape[:-1])
        optimizer.zero_grad()
        F.cross_entropy(y.reshape(-1, classes), target.reshape(-1)).backward()
        optimizer.step()
    write(name, m.state_dict())
    with torch.no_grad():
        y = m.eval()(x)
        y_train = m.train()(x)
    write(f"{name}_io", {"x": x, "y": y, "y_train": y_train})


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    model("resnet", ResNet(), torch.randn(4, 3, 10, 9), 5)
    model("gpt", Gpt(), torch.randint(0, WORDS, (3, CONTEXT)), WORDS)
    model("gpt_encoder", GptEncoder(), torch.randint(0, WORDS, (3, 7)), WORDS)
    tiny = {"a.weight": torch.arange(3.0)}
    torch.save(tiny, FOLDER / "tiny.pt")
    torch.save(tiny, FOLDER / "tiny_legacy.pt", _use_new_zipfile_serialization=False)
    files = sorted(FOLDER.iterdir())
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files)} bytes in {FOLDER}")


main()
