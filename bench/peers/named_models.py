"""PyTorch's models of the names in nn/models.h, as bench/steps/steps_named.cpp begins with them.

Matrices and filters lie in [-s, s), s = 1 / sqrt(inputs), their seed the place among the parameters, from
1; biases are 0; what scales a norm stays as it begins. No dropout. Networks of attention
have AdamW, the others SGD with momentum; gradients are clipped at norm 1.
"""

import torch
from torch import nn
from torch.nn import functional as F

import common
from gpu_models import Made, numbers

# Samples and side of the pictures where nobody names others; the rest has 16 of the model's own size.
USUAL = {
    "resnet18_cifar": (64, 32),
    "mobilenet_v2": (32, 64),
    "mobilenet_v3_small": (32, 64),
    "efficientnet_b0": (16, 64),
    "pointnet": (32, 0),
    "gpt2_block": (4, 0),
}


class TransposedLinear(nn.Module):
    """Hugging Face's Conv1D: the weight lies as [in, out]."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        y = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return y.view(*x.shape[:-1], -1)


class Gpt2Block(nn.Module):
    def __init__(self, channels=768, heads=12):
        super().__init__()
        self.heads = heads
        self.ln_1, self.c_attn = nn.LayerNorm(channels), TransposedLinear(channels, 3 * channels)
        self.c_proj, self.ln_2 = TransposedLinear(channels, channels), nn.LayerNorm(channels)
        self.c_fc = TransposedLinear(channels, 4 * channels)
        self.c_out = TransposedLinear(4 * channels, channels)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (
            p.view(n, t, self.heads, c // self.heads).transpose(1, 2)
            for p in self.c_attn(self.ln_1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, t, c))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class PointTransform(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.conv1, self.conv2 = nn.Conv1d(k, 64, 1), nn.Conv1d(64, 128, 1)
        self.conv3 = nn.Conv1d(128, 1024, 1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(1024, 512), nn.Linear(512, 256), nn.Linear(256, k * k)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(64), nn.BatchNorm1d(128), nn.BatchNorm1d(1024)
        self.bn4, self.bn5 = nn.BatchNorm1d(512), nn.BatchNorm1d(256)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x))).amax(2)
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.fc2(x)))
        eye = torch.eye(self.k, device=x.device).flatten()
        return (self.fc3(x) + eye).view(-1, self.k, self.k)


class PointNetBody(nn.Module):
    def __init__(self):
        super().__init__()
        self.stn = PointTransform(3)
        self.conv1, self.conv2 = nn.Conv1d(3, 64, 1), nn.Conv1d(64, 128, 1)
        self.conv3 = nn.Conv1d(128, 1024, 1)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(64), nn.BatchNorm1d(128), nn.BatchNorm1d(1024)

    def forward(self, x):
        x = torch.bmm(x.transpose(2, 1), self.stn(x)).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.bn3(self.conv3(x)).amax(2)


class PointNet(nn.Module):
    def __init__(self, classes=40):
        super().__init__()
        self.feat = PointNetBody()
        self.fc1, self.fc2, self.fc3 = nn.Linear(1024, 512), nn.Linear(512, 256), nn.Linear(256, classes)
        self.bn1, self.bn2 = nn.BatchNorm1d(512), nn.BatchNorm1d(256)

    def forward(self, x):
        x = F.relu(self.bn1(self.fc1(self.feat(x))))
        return self.fc3(F.relu(self.bn2(self.fc2(x))))


def network(name):
    """(module, shape of an input without its samples)."""
    if name == "gpt2_block":
        return Gpt2Block(), (256, 768)
    if name == "pointnet":
        return PointNet(), (3, 1024)
    import torchvision

    if name == "resnet18_cifar":
        model = torchvision.models.resnet18(num_classes=10)
        model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        model.maxpool = nn.Identity()
        return model, (3, 32, 32)
    return getattr(torchvision.models, name)(weights=None), (3, 224, 224)


@torch.no_grad()
def fill(model):
    for place, (name, p) in enumerate(model.named_parameters(), 1):
        if p.dim() > 1:
            p.copy_(numbers(p.shape, place, (p.numel() // p.shape[0]) ** -0.5, p.device))
        elif name.endswith("bias"):
            p.zero_()
    for m in model.modules():
        if type(m).__name__.startswith(("Dropout", "StochasticDepth")):
            m.eval()


class Rows(nn.Module):
    """Logits as [samples, classes]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        y = self.model(x)
        return y.reshape(-1, y.shape[-1])


def make(name, device, batch=0, image=0):
    """A Made; KeyError for a name that has no peer."""
    if name not in common.NAMED_MODELS:
        raise KeyError(name)
    with torch.device(device):
        model, shape = network(name)
    usual = USUAL.get(name, (16, 0))
    batch, image = batch or usual[0], image or usual[1]
    if image and len(shape) == 3:
        shape = (shape[0], image, image)
    x = numbers((batch, *shape), 101, 1.0, device)
    with torch.no_grad():
        rows, classes = Rows(model).eval()(x[:2]).shape
    rows = rows // min(batch, 2) * batch
    model.train()
    fill(model)
    y = torch.arange(rows, device=device) * 7 % classes
    optimizer = ("SGD", {"lr": 1e-4, "momentum": 0.9})
    if name.startswith("gpt2"):
        optimizer = ("AdamW", {"lr": common.ADAM_LEARNING_RATE, "weight_decay": 0.01})
    return Made(Rows(model), x, y, optimizer, 1.0, "x".join(map(str, x.shape)), None)
