"""PyTorch's rates for rows of `wt bench kernels --device cpu`: one thread, f32, the same shapes and
the same count of bytes, the best and the median of 15 calls into outputs that exist.

    bench/peers/.venv/bin/python bench/peers/torch_kernels.py
"""
import argparse
import statistics
import time

argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(1)
SIDE = 4096
x, y, out = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE), torch.empty(SIDE, SIDE)
positive = x.abs() + 0.01
keep = x > 0
wide, wide_out = torch.randn(2048, 8192), torch.empty(2048, 8192)
token, token_out = torch.randn(333, 50257), torch.empty(333, 50257)
labels = torch.randint(0, 50257, (333,))
N, W, T = x.numel() * 4, wide.numel() * 4, token.numel() * 4

ROWS = [
    ("copy", 2 * N, lambda: out.copy_(x)),
    ("fill", N, lambda: out.fill_(1.5)),
    ("add", 3 * N, lambda: torch.add(x, y, out=out)),
    ("where", 3 * N + N // 4, lambda: torch.where(keep, x, y, out=out)),
    ("exp", 2 * N, lambda: torch.exp(x, out=out)),
    ("expm1", 2 * N, lambda: torch.expm1(x, out=out)),
    ("log", 2 * N, lambda: torch.log(positive, out=out)),
    ("log1p", 2 * N, lambda: torch.log1p(positive, out=out)),
    ("tanh", 2 * N, lambda: torch.tanh(x, out=out)),
    ("sigmoid", 2 * N, lambda: torch.sigmoid(x, out=out)),
    ("erf", 2 * N, lambda: torch.erf(x, out=out)),
    ("sin", 2 * N, lambda: torch.sin(x, out=out)),
    ("cos", 2 * N, lambda: torch.cos(x, out=out)),
    ("sinh", 2 * N, lambda: torch.sinh(x, out=out)),
    ("tan", 2 * N, lambda: torch.tan(x, out=out)),
    ("pow", 3 * N, lambda: torch.pow(positive, y, out=out)),
    ("atan2", 3 * N, lambda: torch.atan2(x, y, out=out)),
    ("gelu", 2 * N, lambda: F.gelu(x)),
    ("silu", 2 * N, lambda: F.silu(x)),
    ("softplus", 2 * N, lambda: F.softplus(x)),
    ("mish", 2 * N, lambda: F.mish(x)),
    ("dropout", 2 * W, lambda: F.dropout(wide, 0.1)),
    ("transposed", 2 * W, lambda: wide_out.t().copy_(wide.reshape(8192, 2048))),
    ("sum, columns", W, lambda: wide.sum(1)),
    ("sum, rows", W, lambda: wide.sum(0)),
    ("var, columns", W, lambda: wide.var(1)),
    ("var, rows", W, lambda: wide.var(0)),
    ("prod, columns", W, lambda: wide.prod(1)),
    ("logsumexp, columns", W, lambda: wide.logsumexp(1)),
    ("logsumexp, rows", W, lambda: wide.logsumexp(0)),
    ("softmax 2048x8192", 2 * W, lambda: torch.softmax(wide, 1, out=wide_out)),
    ("softmax 333x50257", 2 * T, lambda: torch.softmax(token, 1, out=token_out)),
    ("cross_entropy 333x50257", T, lambda: F.cross_entropy(token, labels)),
    ("layer_norm 2048x8192", 2 * W, lambda: F.layer_norm(wide, (8192,))),
]

with torch.no_grad():
    for name, nbytes, call in ROWS:
        call()
        seconds = []
        for _ in range(15):
            begin = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begin)
        print(f"{name:<26}{min(seconds) * 1e6:>10.1f} us at best"
              f"{statistics.median(seconds) * 1e6:>10.1f} median{nbytes / min(seconds) / 1e9:>8.2f} GB/s",
              flush=True)
