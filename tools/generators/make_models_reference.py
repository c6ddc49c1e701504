#!/usr/bin/env python3
"""Writes tests/reference/models: what the models of nn/models.h are in PyTorch's libraries.

    tools/generators/make_models_reference.py [FOLDER]

needs torch, torchvision, timm and transformers; what is checked in needs no Python. NAME.names has the state
dict, a line a module: its name, then each tensor's name and shape. NAME.txt, in the format of
tests/reference/reader.h: `parameters`; `flops`, of convolutions and products alone, two for a product and
its sum, in a forward of one sample; `out`, the first outputs in evaluation; of small models `grads`, the
norm of each parameter's gradient, and `losses` of five steps of SGD in training mode. Weights and inputs
are a hash of name and index (see `hashed`), exact in f32, so nothing of them is stored. Small models are
computed in f64, those of full size in f32.
"""

import math
import pathlib
import sys

import usage

usage.answer(__doc__)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = pathlib.Path(
    sys.argv[1]
    if len(sys.argv) > 1
    else pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "models"
)
STEPS, RATE, OUTPUTS = 5, 0.02, 24


def hashed(shape, name):
    """Numbers of [-1, 1), multiples of 2^-23, from a 32-bit hash of the index and the name (FNV-1a)."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 & 0xFFFFFFFF
    x = np.arange(math.prod(shape), dtype=np.uint64) * 0x9E3779B1 + seed & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ x >> shift) * factor & 0xFFFFFFFF
    return torch.from_numpy(((x ^ x >> 16) >> 8).astype(np.float64) / 2**23 - 1).reshape(shape)


def fill(model):
    """Matrices by their fan in, variances and what scales a norm around 1, the rest around 0."""
    done = set()
    for name, t in model.state_dict().items():
        if not t.is_floating_point() or t.data_ptr() in done:
            continue
        done.add(t.data_ptr())
        u = hashed(tuple(t.shape), name)
        if name.endswith("running_var"):
            u = 1 + 0.3 * u
        elif t.ndim > 1 and not name.endswith("weight_g"):
            u = u * math.sqrt(6 / (t.numel() / t.shape[0]))
        elif name.endswith(("weight", "weight_g")):
            u = 1 + 0.1 * u
        else:
            u = 0.1 * u
        with torch.no_grad():
            t.copy_(u)


def ids(shape, name, below):
    return ((hashed(shape, name) + 1) / 2 * below).long()


def write_names(case, model):
    modules = {}
    for name, t in model.state_dict().items():
        module, _, last = name.rpartition(".")
        modules.setdefault(module, []).append(f"{last} {'x'.join(map(str, t.shape)) or 'scalar'}")
    lines = [f"# {case}: made by tools/generators/make_models_reference.py"]
    lines += [" ".join([module or "."] + tensors) for module, tensors in modules.items()]
    (FOLDER / f"{case}.names").write_text("\n".join(lines) + "\n")


def write(case, arrays, by="make_models_reference.py"):
    lines = [f"# {case}: made by tools/generators/{by} with PyTorch {torch.__version__}"]
    for name, value in arrays.items():
        value = torch.as_tensor(value)
        kind, form = ("f64", "%.17g") if value.is_floating_point() else ("i64", "%d")
        if value.dtype == torch.float32:
            form = "%.9g"
        lines.append(f"{name} {kind} {'x'.join(map(str, value.shape)) or 'scalar'}")
        values = [form % v for v in value.detach().reshape(-1).tolist()]
        lines += [" ".join(values[i : i + 4]) for i in range(0, len(values), 4)]
    (FOLDER / f"{case}.txt").write_text("\n".join(lines) + "\n")


def products(model, inputs):
    """FLOPs of convolutions and linear layers, and of attention where a layer says how many."""
    total = 0

    def count(m, x, y):
        nonlocal total
        if isinstance(m, (nn.Conv1d, nn.Conv2d)):
            total += 2 * y.numel() * m.weight.numel() // m.weight.shape[0]
        elif isinstance(m, nn.ConvTranspose2d):
            total += 2 * x[0].numel() * m.weight.numel() // m.weight.shape[0]
        elif isinstance(m, nn.Linear):
            total += 2 * y.numel() * m.weight.shape[1]

    hooks = [m.register_forward_hook(count) for m in model.modules()]
    with torch.no_grad():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return total


def first(y):
    return y[0] if isinstance(y, tuple) else y


def outputs(model, inputs):
    with torch.no_grad():
        return first(model.eval()(*inputs)).reshape(-1)[:OUTPUTS]


def whole(case, model, *inputs, flops_of=None):
    """A model of full size, in f32."""
    fill(model)
    arrays = {"parameters": sum(p.numel() for p in model.parameters())}
    arrays["out"] = outputs(model, inputs)
    if flops_of:
        arrays["flops"] = products(model, flops_of)
    write_names(case, model)
    write(case, arrays)


def small(case, model, *inputs, loss):
    """A small model of the same classes: gradients and training too, in f64."""
    model = model.double()
    fill(model)
    arrays = {"parameters": sum(p.numel() for p in model.parameters())}
    arrays["out"] = outputs(model, inputs)
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=RATE)
    losses = []
    for step in range(STEPS):
        value = loss(first(model(*inputs)))
        optimizer.zero_grad()
        value.backward()
        if step == 0:
            arrays["grads"] = torch.stack([p.grad.norm() for p in trained])
        optimizer.step()
        losses.append(value.detach())
    arrays["losses"] = torch.stack(losses)
    write_names(case, model)
    write(case, arrays)


def classes(n, k):
    labels = ids((n,), "labels", k)
    return lambda y: F.cross_entropy(y, labels)


def picture(*shape):
    return hashed(shape, "x")


class NarrowResNet(torchvision.models.ResNet):
    """torchvision's, but for the channels of its first stage."""

    def __init__(self, block, layers, width, num_classes, cifar_stem):
        nn.Module.__init__(self)
        self._norm_layer, self.inplanes, self.dilation = nn.BatchNorm2d, width, 1
        self.groups, self.base_width = 1, 64
        kernel, stride = (3, 1) if cifar_stem else (7, 2)
        self.conv1 = nn.Conv2d(3, width, kernel, stride, kernel // 2, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU()
        self.maxpool = nn.Identity() if cifar_stem else nn.MaxPool2d(3, 2, 1)
        for i, count in enumerate(layers):
            stage = self._make_layer(block, width << i, count, stride=1 if i == 0 else 2)
            setattr(self, f"layer{i + 1}", stage)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear((width << 3) * block.expansion, num_classes)


def resnets():
    from torchvision.models.resnet import BasicBlock, Bottleneck

    tv = torchvision.models
    for name in "resnet18", "resnet34", "resnet50":
        sample = torch.zeros(1, 3, 224, 224)
        whole(name, getattr(tv, name)(), picture(2, 3, 64, 64).float(), flops_of=[sample])
    whole("resnet18_cifar", NarrowResNet(BasicBlock, [2, 2, 2, 2], 64, 10, True), picture(2, 3, 32, 32).float(),
          flops_of=[torch.zeros(1, 3, 32, 32)])
    x = picture(4, 3, 32, 32)
    small("resnet_basic", NarrowResNet(BasicBlock, [1, 2, 1, 1], 4, 10, True), x, loss=classes(4, 10))
    x = picture(4, 3, 64, 64)
    small("resnet_bottleneck", NarrowResNet(Bottleneck, [1, 2, 1, 1], 4, 10, False), x, loss=classes(4, 10))


def mobile_networks():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    tv = torchvision.models
    x, sample = picture(2, 3, 64, 64).float(), torch.zeros(1, 3, 224, 224)
    for name in "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0":
        whole(name, getattr(tv, name)(), x, flops_of=[sample])
    x, loss = picture(4, 3, 32, 32), classes(4, 10)
    stages = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 1]]
    small("mobilenet_v2_narrow", tv.MobileNetV2(10, 0.25, stages, dropout=0.0), x, loss=loss)
    config = lambda *c: InvertedResidualConfig(*c, 1, 1)
    blocks = [config(8, 3, 8, 8, True, "RE", 2), config(8, 5, 24, 16, False, "HS", 1),
              config(16, 5, 40, 16, True, "HS", 1)]
    small("mobilenet_v3_narrow", MobileNetV3(blocks, 32, 10, dropout=0.0), x, loss=loss)
    stage = torchvision.models.efficientnet.MBConvConfig
    stages = [stage(1, 3, 1, 8, 8, 1, 1.0, 1.0), stage(6, 5, 2, 8, 16, 2, 1.0, 1.0)]
    small("efficientnet_narrow", tv.EfficientNet(stages, 0.0, 0.0, 10), x, loss=loss)


def tokens(n, t, below):
    """Ids, and the loss of logits [N, T, below] against hashed labels."""
    labels = ids((n, t), "labels", below)
    return ids((n, t), "x", below), lambda y: F.cross_entropy(y.reshape(-1, below), labels.reshape(-1))


class Logits(nn.Module):
    """What gives its logits in a structure, as a plain module of the same names."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, *x):
        return self.inner(*x).logits

    def state_dict(self, *a, **k):
        return self.inner.state_dict(*a, **k)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    def model(**sizes):
        still = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        return Logits(GPT2LMHeadModel(GPT2Config(**sizes, **still)))

    for case, sizes in ("gpt2", {}), ("gpt2_medium", dict(n_embd=1024, n_layer=24, n_head=16)):
        m = model(**sizes)
        write_names(case, m)
        write(case, {"parameters": sum(p.numel() for p in m.parameters())})
    x, loss = tokens(2, 12, 51)
    small("gpt2_small", model(vocab_size=51, n_positions=16, n_embd=24, n_layer=2, n_head=3), x, loss=loss)


def vit():
    import timm

    sizes = dict(img_size=16, patch_size=4, embed_dim=24, depth=2, num_heads=3, num_classes=10)
    whole("vit_small_patch16_224", timm.create_model("vit_small_patch16_224"), picture(1, 3, 224, 224).float())
    small("vit_narrow", timm.models.VisionTransformer(**sizes), picture(4, 3, 16, 16), loss=classes(4, 10))


class TokenEmbedding(nn.Module):
    def __init__(self, vocabulary, channels):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, channels)

    def forward(self, x):
        return self.embedding(x) * math.sqrt(self.embedding.embedding_dim)


class PositionalEncoding(nn.Module):
    def __init__(self, channels, longest):
        super().__init__()
        rates = torch.exp(-torch.arange(0, channels, 2) * math.log(10000) / channels)
        angles = torch.arange(longest).reshape(longest, 1) * rates
        table = torch.stack([angles.sin(), angles.cos()], 2).reshape(longest, 1, channels)
        self.register_buffer("pos_embedding", table)

    def forward(self, x):
        return x + self.pos_embedding[: x.shape[1]].transpose(0, 1)


class Seq2Seq(nn.Module):
    """The names of PyTorch's translation tutorial; batches come first."""

    def __init__(self, source, target, channels, heads, layers, hidden, longest=5000, padding=None):
        super().__init__()
        self.transformer = nn.Transformer(channels, heads, layers, layers, hidden, 0.0, batch_first=True)
        self.generator = nn.Linear(channels, target)
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(source, channels), TokenEmbedding(target, channels)
        self.positional_encoding = PositionalEncoding(channels, longest)
        self.padding = padding

    def forward(self, source, target):
        later = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
        of_source, of_target = (None, None) if self.padding is None else (source == self.padding, target == self.padding)
        y = self.transformer(
            self.positional_encoding(self.src_tok_emb(source)),
            self.positional_encoding(self.tgt_tok_emb(target)),
            tgt_mask=later,
            src_key_padding_mask=of_source,
            tgt_key_padding_mask=of_target,
            memory_key_padding_mask=of_source,
        )
        return self.generator(y)


def seq2seq():
    m = Seq2Seq(10000, 10000, 512, 8, 4, 512)
    write_names("seq2seq", m)
    write("seq2seq", {"parameters": sum(p.numel() for p in m.parameters())})
    target, loss = tokens(3, 6, 17)
    source = ids((3, 8), "source", 19)
    source[1, 5:] = 1
    target[2, 4:] = 1
    target[:, 0] = 2  # a row that begins with padding would see nothing
    source[:, 0] = 2
    m = Seq2Seq(19, 17, 16, 4, 2, 20, 12, padding=1)
    small("seq2seq_small", m, source, target, loss=loss)


def double_conv(inside, between, outside):
    def half(i, o):
        return nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()

    return nn.Sequential(*half(inside, between), *half(between, outside))


class DoubleConv(nn.Module):
    def __init__(self, inside, outside, between=None):
        super().__init__()
        self.double_conv = double_conv(inside, between or outside, outside)

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inside, outside))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, inside, outside, bilinear):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        if not bilinear:
            self.up = nn.ConvTranspose2d(inside, inside // 2, 2, stride=2)
        self.conv = DoubleConv(inside, outside, inside // 2 if bilinear else None)

    def forward(self, x, seen):
        x = self.up(x)
        below, right = seen.shape[2] - x.shape[2], seen.shape[3] - x.shape[3]
        x = F.pad(x, [right // 2, right - right // 2, below // 2, below - below // 2])
        return self.conv(torch.cat([seen, x], 1))


class OutConv(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    """The names of milesial's Pytorch-UNet."""

    def __init__(self, width, bilinear):
        super().__init__()
        half = 2 if bilinear else 1
        self.inc = DoubleConv(3, width)
        for i in range(4):
            setattr(self, f"down{i + 1}", Down(width << i, (width << i + 1) // (half if i == 3 else 1)))
        for i in range(4):
            to = (width << 3 - i) // (half if i < 3 else 1)
            setattr(self, f"up{i + 1}", Up(width << 4 - i, to, bilinear))
        self.outc = OutConv(width, 2)

    def forward(self, x):
        levels = [self.inc(x)]
        for down in self.down1, self.down2, self.down3, self.down4:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up in self.up1, self.up2, self.up3, self.up4:
            x = up(x, levels.pop())
        return self.outc(x)


def unet():
    whole("unet", UNet(64, False), picture(1, 3, 32, 32).float())
    labels = ids((2, 33, 34), "labels", 2)
    for case, bilinear in ("unet_narrow", False), ("unet_bilinear", True):
        small(case, UNet(2, bilinear), picture(2, 3, 33, 34), loss=lambda y: F.cross_entropy(y, labels))


class PointTransform(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(k, 64, 1), nn.Conv1d(64, 128, 1), nn.Conv1d(128, 1024, 1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(1024, 512), nn.Linear(512, 256), nn.Linear(256, k * k)
        for i, n in enumerate((64, 128, 1024, 512, 256)):
            setattr(self, f"bn{i + 1}", nn.BatchNorm1d(n))
        self.k = k

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        x = self.bn2(self.conv2(x)).relu()
        x = self.bn3(self.conv3(x)).relu().max(2).values
        x = self.bn5(self.fc2(self.bn4(self.fc1(x)).relu())).relu()
        return self.fc3(x).reshape(-1, self.k, self.k) + torch.eye(self.k, dtype=x.dtype)


class PointBody(nn.Module):
    def __init__(self, feature_transform):
        super().__init__()
        self.stn = PointTransform(3)
        self.conv1, self.conv2, self.conv3 = nn.Conv1d(3, 64, 1), nn.Conv1d(64, 128, 1), nn.Conv1d(128, 1024, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(64), nn.BatchNorm1d(128), nn.BatchNorm1d(1024)
        self.fstn = PointTransform(64) if feature_transform else None

    def forward(self, x):
        turn = lambda x, t: (x.transpose(1, 2) @ t).transpose(1, 2)
        x = self.bn1(self.conv1(turn(x, self.stn(x)))).relu()
        if self.fstn is not None:
            x = turn(x, self.fstn(x))
        x = self.bn2(self.conv2(x)).relu()
        return self.bn3(self.conv3(x)).max(2).values


class PointNet(nn.Module):
    """The names of fxia22's pointnet.pytorch, without its log-softmax and dropout."""

    def __init__(self, k, feature_transform):
        super().__init__()
        self.feat = PointBody(feature_transform)
        self.fc1, self.fc2, self.fc3 = nn.Linear(1024, 512), nn.Linear(512, 256), nn.Linear(256, k)
        self.bn1, self.bn2 = nn.BatchNorm1d(512), nn.BatchNorm1d(256)

    def forward(self, x):
        x = self.bn1(self.fc1(self.feat(x))).relu()
        return self.fc3(self.bn2(self.fc2(x)).relu())


def pointnet():
    small("pointnet", PointNet(40, False), picture(5, 3, 20), loss=classes(5, 40))
    small("pointnet_features", PointNet(4, True), picture(5, 3, 20), loss=classes(5, 4))


class DeepSdfDecoder(nn.Module):
    def __init__(self, latent, width, layers, latent_in):
        super().__init__()
        first = latent + 3
        for i in range(layers + 1):
            outside = 1 if i == layers else width - first if i + 1 == latent_in else width
            layer = nn.Linear(first if i == 0 else width, outside)
            setattr(self, f"lin{i}", layer if i == layers else nn.utils.weight_norm(layer))
        self.layers, self.latent_in = layers, latent_in

    def forward(self, x):
        first = x
        for i in range(self.layers + 1):
            if i == self.latent_in:
                x = torch.cat([x, first], 1)
            x = getattr(self, f"lin{i}")(x)
            if i < self.layers:
                x = x.relu()
        return x.tanh()


class DeepSdf(nn.Module):
    """The decoder's names are those of DeepSDF's program, which keeps the table in another file."""

    def __init__(self, shapes, latent, width, layers, latent_in):
        super().__init__()
        self.lat_vecs = nn.Embedding(shapes, latent)
        self.decoder = DeepSdfDecoder(latent, width, layers, latent_in)

    def forward(self, shapes, points):
        return self.decoder(torch.cat([self.lat_vecs(shapes), points], 1))


def deep_sdf():
    whole("deepsdf", DeepSdf(100, 256, 512, 8, 4), ids((24,), "shapes", 100), hashed((24, 3), "x").float())
    target = hashed((24, 1), "labels")
    loss = lambda y: F.mse_loss(y, target)
    small("deepsdf_small", DeepSdf(5, 6, 20, 4, 2), ids((24,), "shapes", 5), hashed((24, 3), "x"), loss=loss)


class Fnn(nn.Module):
    """DeepXDE's FNN."""

    def __init__(self, sizes):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.linears[:-1]:
            x = layer(x).tanh()
        return self.linears[-1](x)


def burgers(u):
    """The mean square of u_t + u u_x - 0.01 / pi u_xx, by derivatives of the network."""

    def residual(x):
        x = x.clone().requires_grad_()
        y = u(x)
        first = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)[0]
        return first[:, 1] + y[:, 0] * first[:, 0] - 0.01 / math.pi * second[:, 0]

    return residual


class BurgersResidual(nn.Module):
    def __init__(self, u):
        super().__init__()
        self.inner = u

    def forward(self, x):
        with torch.enable_grad():
            return burgers(self.inner)(x)

    def state_dict(self, *a, **k):
        return self.inner.state_dict(*a, **k)


def pinn():
    model = BurgersResidual(Fnn([2, 20, 20, 20, 1]))
    small("pinn", model, hashed((16, 2), "x"), loss=lambda r: (r**2).mean())


class SpeedrunGroup(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, padding="same", bias=False)
        self.norm1 = nn.BatchNorm2d(outside, eps=1e-12, momentum=0.4)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding="same", bias=False)
        self.norm2 = nn.BatchNorm2d(outside, eps=1e-12, momentum=0.4)
        self.norm1.weight.requires_grad = self.norm2.weight.requires_grad = False

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class CifarNet(nn.Module):
    """airbench94's names."""

    def __init__(self, widths):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        groups = [SpeedrunGroup(a, b) for a, b in zip((24, *widths), widths)]
        self.layers = nn.Sequential(nn.GELU(), *groups, nn.MaxPool2d(3))
        self.head = nn.Linear(widths[-1], 10, bias=False)

    def forward(self, x):
        return self.head(self.layers(self.whiten(x)).flatten(1)) / 9


def whitening():
    """The frozen convolution of 12 hashed images: directions of patches, whose signs are free."""
    images = picture(12, 3, 8, 8)
    patches = F.unfold(images, 2).transpose(1, 2).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    scaled = (vectors / (values + 5e-4).sqrt()).T.flip(0)
    write("cifar_speedrun_whiten", {"gram": scaled.T @ scaled, "norms": scaled.norm(dim=1)})


def cifar_speedrun():
    x = picture(2, 3, 32, 32)
    whole("cifar_speedrun", CifarNet((64, 256, 256)), x.float(), flops_of=[torch.zeros(1, 3, 32, 32)])
    small("cifar_speedrun_narrow", CifarNet((8, 12, 16)), picture(4, 3, 32, 32), loss=classes(4, 10))
    whitening()


PARTS = [resnets, mobile_networks, gpt2, vit, seq2seq, unet, pointnet, deep_sdf, pinn, cifar_speedrun]


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        part()
    files = sorted(FOLDER.iterdir())
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files)} bytes in {FOLDER}")


if __name__ == "__main__":
    main()
