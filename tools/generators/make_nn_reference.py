#!/usr/bin/env python3
"""Writes tests/reference/nn/*.txt: what PyTorch's modules make of small inputs.

    bench/peers/setup.sh && bench/peers/.venv/bin/python tools/generators/make_nn_reference.py [FOLDER]

They are checked in, so no test needs Python. The format is that of tests/reference/reader.h, all in
f64, from a hash of the index instead of a random generator. A file holds one module: `state.NAME`,
its state dict under PyTorch's names; the inputs `x`, or `x`, `x1`, ...; the outputs `out`, `out1`,
...; the gradients `grad_out`, ... that are sent in, of the inputs (`grad_x`, ...) and of the
parameters (`grad.NAME`); `after.NAME`, the buffers afterwards. An output of a loss is its mean.
"""

import pathlib
import sys

import usage

usage.answer(__doc__)

import torch  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = pathlib.Path(
    sys.argv[1]
    if len(sys.argv) > 1
    else pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "nn"
)


def numbers(shape, seed, scale=2.0):
    """Multiples of scale / 512 in [-scale, scale): a hash of the index, exact in f32."""
    n = 1
    for d in shape:
        n *= d
    values = [(((i + 1 + seed * 1000003) * 2654435761 % 2**32) >> 22) - 512 for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape) * (scale / 512)


def write(case, arrays):
    lines = [f"# {case}: made by tools/generators/make_nn_reference.py with PyTorch {torch.__version__}"]
    for name, value in arrays.items():
        kind, form = ("f64", "%.17g") if value.is_floating_point() else ("i64", "%d")
        shape = "x".join(map(str, value.shape)) or "scalar"
        lines.append(f"{name} {kind} {shape}")
        values = [form % v for v in value.detach().reshape(-1).tolist()]
        lines += [" ".join(values[i : i + 4]) for i in range(0, len(values), 4)]
    (FOLDER / f"{case}.txt").write_text("\n".join(lines) + "\n")


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value if v is not None for t in flat(v)]


def module(case, m, *inputs, call=None, train=True, scale=0.5):
    """`inputs` are tensors, or shapes of inputs that are made here; floating ones get gradients."""
    m = m.double().train(train)
    names = [n for n, _ in m.named_parameters()]
    with torch.no_grad():
        for k, (name, p) in enumerate(m.named_parameters()):
            p.copy_(numbers(tuple(p.shape), 100 + k, scale))
            if name.startswith("norm") or ".norm" in name or isinstance(m, NORMS):
                p.add_(1.0)
        for k, (name, b) in enumerate(m.named_buffers()):
            if "running" in name:
                b.copy_(numbers(tuple(b.shape), 200 + k).abs() + 0.5)
    arrays = {f"state.{n}": t.clone() for n, t in m.state_dict().items()}
    xs = [t if isinstance(t, torch.Tensor) else numbers(t, 7 + i) for i, t in enumerate(inputs)]
    label = lambda name, i: name if i == 0 else f"{name}{i}"
    for i, x in enumerate(xs):
        arrays[label("x", i)] = x
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in xs]
    outs = flat(call(m, *leaves) if call else m(*leaves))
    sent = [numbers(tuple(o.shape), 90 + i) if o.ndim else torch.tensor(1.0).double() for i, o in enumerate(outs)]
    wanted = [x for x in leaves if x.is_floating_point()] + list(m.parameters())
    differentiable = [(o, g) for o, g in zip(outs, sent) if o.requires_grad]
    grads = torch.autograd.grad(
        [o for o, _ in differentiable], wanted, [g for _, g in differentiable], allow_unused=True
    )
    grads = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, grads)]
    for i, (o, g) in enumerate(zip(outs, sent)):
        arrays[label("out", i)] = o
        arrays[label("grad_out", i)] = g
    k = 0
    for i, x in enumerate(leaves):
        if x.is_floating_point():
            arrays[label("grad_x", i)] = grads[k]
            k += 1
    for name, g in zip(names, grads[k:]):
        arrays[f"grad.{name}"] = g
    for name, b in m.named_buffers():
        arrays[f"after.{name}"] = b
    write(case, arrays)


NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm,
         nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)  # fmt: skip


def convolutions():
    module("conv1d", nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 7))
    module("conv1d_reflect", nn.Conv1d(2, 2, 3, padding=2, padding_mode="reflect"), (2, 2, 5))
    module("conv2d", nn.Conv2d(2, 3, 3, padding=1), (2, 2, 5, 4))
    module("conv2d_plain", nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), groups=2, bias=False), (1, 4, 5, 4))
    module("conv2d_same", nn.Conv2d(2, 2, (2, 3), padding="same", dilation=(1, 2)), (1, 2, 4, 5))
    module(
        "conv2d_circular_same",
        nn.Conv2d(2, 2, (2, 3), padding="same", padding_mode="circular"),
        (1, 2, 4, 5),
    )
    module("conv2d_replicate", nn.Conv2d(1, 2, 3, padding=(2, 1), padding_mode="replicate"), (1, 3, 4))
    module("conv3d", nn.Conv3d(2, 2, (2, 1, 3), padding=(1, 0, 1)), (1, 2, 3, 2, 4))
    module("conv_transpose1d", nn.ConvTranspose1d(2, 3, 3, 2, 1, 1), (2, 2, 4))
    module("conv_transpose2d", nn.ConvTranspose2d(4, 2, (3, 2), 2, 1, (1, 0), groups=2), (1, 4, 3, 3))
    module("conv_transpose3d", nn.ConvTranspose3d(2, 1, 2, dilation=2, bias=False), (1, 2, 2, 2, 2))


def norms():
    module("batch_norm1d", nn.BatchNorm1d(3), (4, 3))
    module("batch_norm2d", nn.BatchNorm2d(2, momentum=None), (2, 2, 3, 2))
    module("batch_norm2d_eval", nn.BatchNorm2d(2), (2, 2, 3, 2), train=False)
    module("batch_norm3d", nn.BatchNorm3d(2, eps=0.1, momentum=0.3, affine=False), (2, 2, 1, 3, 2))
    module("group_norm", nn.GroupNorm(2, 4), (2, 4, 3))
    module("layer_norm", nn.LayerNorm((3, 4), bias=False), (2, 3, 4))
    module("rms_norm", nn.RMSNorm(5), (2, 3, 5))
    module("instance_norm1d", nn.InstanceNorm1d(3), (2, 3, 4))
    module("instance_norm1d_alone", nn.InstanceNorm1d(3, affine=True), (3, 4))
    module("instance_norm2d", nn.InstanceNorm2d(2, affine=True, track_running_stats=True), (2, 2, 3, 2))
    module(
        "instance_norm2d_eval",
        nn.InstanceNorm2d(2, affine=True, track_running_stats=True),
        (2, 2, 3, 2),
        train=False,
    )
    module("instance_norm3d", nn.InstanceNorm3d(2, eps=0.1), (1, 2, 2, 3, 1))
    module("local_response_norm", nn.LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2.0), (2, 5, 3))
    module("local_response_norm_even", nn.LocalResponseNorm(2, alpha=0.5), (1, 4, 2, 2, 2))


def poolings():
    module("max_pool1d", nn.MaxPool1d(3, stride=2), (2, 2, 7))
    module("max_pool2d", nn.MaxPool2d((3, 2), padding=1, ceil_mode=True), (1, 2, 5, 4))
    module("max_pool3d", nn.MaxPool3d(2, dilation=(1, 2, 1)), (1, 1, 3, 4, 4))
    module("avg_pool1d", nn.AvgPool1d(2, stride=1, padding=1), (1, 2, 4))
    module("avg_pool2d", nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 2, 5, 4))
    module("avg_pool3d", nn.AvgPool3d((1, 2, 2), divisor_override=3), (1, 1, 2, 4, 4))
    module("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), (2, 2, 5))
    module("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 1)), (1, 2, 3, 4))
    module("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d(2), (1, 1, 3, 2, 4))
    module("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3), (2, 2, 5))
    module("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((2, 3)), (2, 3, 4))
    module("upsample_nearest", nn.Upsample(size=(3, 5)), (1, 2, 2, 3))
    module("upsample_bilinear", nn.Upsample(scale_factor=2, mode="bilinear"), (1, 1, 2, 3))


def activations():
    # The bends of all of them are among the values, and large ones.
    bends = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 25.0, -25.0, 40.0, -40.0]
    x = torch.cat([torch.tensor(bends).double(), numbers((10,), 10, 4.0)]).reshape(2, 3, 4)
    for case, m in (
        ("relu", nn.ReLU()),
        ("relu6", nn.ReLU6()),
        ("hardtanh", nn.Hardtanh(-0.5, 3.0)),
        ("leaky_relu", nn.LeakyReLU(0.1)),
        ("elu", nn.ELU(1.5)),
        ("celu", nn.CELU(0.5)),
        ("selu", nn.SELU()),
        ("gelu", nn.GELU()),
        ("gelu_tanh", nn.GELU(approximate="tanh")),
        ("silu", nn.SiLU()),
        ("mish", nn.Mish()),
        ("softplus", nn.Softplus(2.0, 10.0)),
        ("hardswish", nn.Hardswish()),
        ("hardsigmoid", nn.Hardsigmoid()),
        ("sigmoid", nn.Sigmoid()),
        ("tanh", nn.Tanh()),
        ("log_sigmoid", nn.LogSigmoid()),
        ("softsign", nn.Softsign()),
        ("tanhshrink", nn.Tanhshrink()),
        ("hardshrink", nn.Hardshrink()),
        ("softshrink", nn.Softshrink()),
        ("threshold", nn.Threshold(0.5, -2.0)),
        ("glu", nn.GLU()),
        ("softmax", nn.Softmax(1)),
        ("log_softmax", nn.LogSoftmax(-1)),
        ("softmin", nn.Softmin(0)),
        ("softmax2d", nn.Softmax2d()),
        ("prelu", nn.PReLU()),
        ("prelu_channels", nn.PReLU(3)),
    ):
        # Its own gradient in f64 multiplies by 1/6 rounded to f32.
        exact = (lambda m, x: nn.functional.relu6(x + 3) / 6) if case == "hardsigmoid" else None
        # At -3 and 3 the derivative jumps; PyTorch takes the outer side there, warptape the inner.
        module(case, m, x.clamp(-2.75, 2.75) if case == "hardswish" else x, call=exact)


def others():
    module("linear", nn.Linear(3, 2), (2, 4, 3))
    module("embedding", nn.Embedding(5, 3, padding_idx=-2), torch.tensor([[1, 4, 1], [3, 0, 3]]))
    module("embedding_bag", nn.EmbeddingBag(5, 3, mode="max", padding_idx=2),
           torch.tensor([[1, 4, 2], [2, 2, 2], [0, 3, 3]]))  # fmt: skip
    module("embedding_bag_offsets", nn.EmbeddingBag(5, 3, mode="sum"), torch.tensor([1, 4, 1, 0, 2, 3]),
           torch.tensor([0, 2, 2]), (6,))  # fmt: skip
    module("unflatten", nn.Unflatten(1, (2, -1)), (2, 6, 2))
    module("flatten", nn.Flatten(1, 2), (2, 3, 2, 2))
    module(
        "sequential",
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(8, 3)),
        (3, 1, 6, 6),
    )  # fmt: skip


def losses():
    labels = torch.tensor([0, 3, 2, 3])
    logits, other = (4, 5), numbers((4, 5), 20)
    unit = numbers((4, 5), 21, 0.5) + 0.5
    signs = torch.tensor([1, -1, 1, -1])
    weight = numbers((5,), 22, 0.5) + 1.0
    module("cross_entropy_loss", nn.CrossEntropyLoss(label_smoothing=0.1), logits, labels)
    module("cross_entropy_loss_weight", nn.CrossEntropyLoss(weight=weight, ignore_index=2), logits, labels)
    module("nll_loss", nn.NLLLoss(weight=weight), logits, labels)
    module("mse_loss", nn.MSELoss(), logits, other)
    module("l1_loss", nn.L1Loss(), logits, other)
    module("smooth_l1_loss", nn.SmoothL1Loss(beta=0.5), logits, other)
    module("huber_loss", nn.HuberLoss(delta=0.5), logits, other)
    module("bce_loss", nn.BCELoss(weight=weight), unit.clamp(0.01, 0.99), unit.flip(0))
    module(
        "bce_with_logits_loss",
        nn.BCEWithLogitsLoss(weight=weight, pos_weight=weight.flip(0)),
        logits,
        unit,
    )
    module("kl_div_loss", nn.KLDivLoss(reduction="batchmean"), logits, unit)
    module("cosine_embedding_loss", nn.CosineEmbeddingLoss(0.25), logits, other, signs)
    module("triplet_margin_loss", nn.TripletMarginLoss(swap=True), logits, other, unit)
    module(
        "ctc_loss",
        nn.CTCLoss(),
        (5, 2, 4),
        torch.tensor([[1, 2], [3, 3]]),
        torch.tensor([5, 4]),
        torch.tensor([2, 2]),
        call=lambda m, x, *rest: m(x.log_softmax(2), *rest),  # its gradient is meant for that alone
    )
    module("poisson_nll_loss", nn.PoissonNLLLoss(full=True), logits, unit)
    module("gaussian_nll_loss", nn.GaussianNLLLoss(eps=0.1), logits, other, unit)
    module("margin_ranking_loss", nn.MarginRankingLoss(0.5), (4,), other[:, 0], signs.double())
    module("hinge_embedding_loss", nn.HingeEmbeddingLoss(), (4,), signs)
    module("soft_margin_loss", nn.SoftMarginLoss(), (4,), signs, call=lambda m, x, t: m(x, t.double()))
    module("multi_margin_loss", nn.MultiMarginLoss(p=2, weight=weight), logits, labels)
    module("cosine_similarity", nn.CosineSimilarity(), logits, other)
    module("pairwise_distance", nn.PairwiseDistance(3.0, keepdim=True), logits, other)


def attention():
    keys = torch.tensor([[0, 0, 1, 0], [0, 1, 0, 1]])  # of two samples: 1 is not seen
    pairs = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]])
    heads, plain = nn.MultiheadAttention, {"need_weights": False}
    module("attention_self", heads(6, 2), (3, 2, 6), call=lambda m, x: m(x, x, x))
    module(
        "attention_cross",
        heads(4, 2, kdim=3, vdim=5, batch_first=True),
        (2, 3, 4),
        (2, 4, 3),
        (2, 4, 5),
        keys,
        pairs,
        call=lambda m, q, k, v, keys, pairs: m(
            q, k, v, key_padding_mask=keys.bool(), attn_mask=pairs.bool(), average_attn_weights=False
        ),
    )
    module(
        "attention_plain",
        heads(4, 2, bias=False),
        (3, 2, 4),
        (4, 2, 4),
        (4, 3, 4),  # of each sample and head, added to the scores
        keys,
        call=lambda m, q, k, mask, keys: m(
            q, k, k, attn_mask=mask, key_padding_mask=keys.double() * -3.0, **plain
        )[0],
    )
    module(
        "attention_causal",
        heads(4, 1),
        (3, 4),
        call=lambda m, x: m(x, x, x, attn_mask=torch.ones(3, 3).triu(1).bool()),
    )


def transformers():
    keys = torch.tensor([[0, 0, 1], [0, 0, 0]])
    causal = lambda n: torch.ones(n, n).triu(1).bool()
    small = {"dim_feedforward": 5, "dropout": 0.0}
    module("transformer_encoder_layer", nn.TransformerEncoderLayer(4, 2, **small), (3, 2, 4))
    first = nn.TransformerEncoderLayer(
        4, 2, **small, activation="gelu", norm_first=True, batch_first=True, layer_norm_eps=0.1
    )
    module(
        "transformer_encoder_layer_first",
        first,
        (2, 3, 4),
        keys,
        call=lambda m, x, keys: m(x, src_mask=causal(3), src_key_padding_mask=keys.bool()),
    )
    module(
        "transformer_encoder_layer_plain",
        nn.TransformerEncoderLayer(4, 1, **small, bias=False),
        (3, 4),
    )
    module("transformer_decoder_layer", nn.TransformerDecoderLayer(4, 2, **small), (3, 2, 4), (5, 2, 4))
    module(
        "transformer_decoder_layer_first",
        nn.TransformerDecoderLayer(4, 2, **small, norm_first=True, batch_first=True),
        (2, 3, 4),
        (2, 3, 4),
        keys,
        call=lambda m, x, memory, keys: m(
            x, memory, tgt_mask=causal(3), memory_key_padding_mask=keys.bool()
        ),
    )
    stack = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, **small), 2, nn.LayerNorm(4), enable_nested_tensor=False
    )
    module("transformer_encoder", stack, (3, 1, 4))
    module(
        "transformer",
        nn.Transformer(4, 2, 1, 2, 3, dropout=0.0, batch_first=True),
        (1, 3, 4),
        (1, 2, 4),
        call=lambda m, src, tgt: m(src, tgt, tgt_mask=causal(2)),
    )


def recurrent():
    state = lambda n, batch, size: (n, batch, size) if batch else (n, size)
    module("lstm", nn.LSTM(3, 2), (4, 2, 3))
    module("lstm_two_both_ways", nn.LSTM(3, 2, num_layers=2, bidirectional=True), (3, 2, 3))
    module(
        "lstm_state",
        nn.LSTM(2, 3, num_layers=2, batch_first=True),
        (2, 3, 2),
        state(2, 2, 3),
        state(2, 2, 3),
        call=lambda m, x, h, c: m(x, (h, c)),
    )
    module("lstm_alone", nn.LSTM(3, 2, bias=False), (4, 3))
    module("gru", nn.GRU(3, 2), (4, 2, 3))
    module("gru_two_both_ways", nn.GRU(3, 2, num_layers=2, bidirectional=True, batch_first=True), (2, 3, 3))
    module("gru_state", nn.GRU(2, 3, bias=False), (3, 2), state(1, 0, 3))
    module("rnn", nn.RNN(3, 2), (4, 2, 3))
    both_ways = {"num_layers": 2, "bidirectional": True, "batch_first": True}
    module("rnn_two_both_ways", nn.RNN(3, 2, nonlinearity="relu", **both_ways), (2, 3, 3))
    module("rnn_state", nn.RNN(2, 3, bias=False), (3, 2), state(1, 0, 3))
    module("rnn_cell", nn.RNNCell(3, 2), (4, 3))
    module("rnn_cell_relu", nn.RNNCell(3, 2, nonlinearity="relu"), (3,), (2,))
    module("lstm_cell", nn.LSTMCell(3, 2), (4, 3), (4, 2), (4, 2), call=lambda m, x, h, c: m(x, (h, c)))
    module("lstm_cell_alone", nn.LSTMCell(3, 2, bias=False), (3,))
    module("gru_cell", nn.GRUCell(3, 2), (4, 3), (4, 2))
    module("gru_cell_alone", nn.GRUCell(3, 2, bias=False), (3,))


def packed():
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    def call(lengths, pad={}, **pack):
        def run(m, x, *state):
            p = pack_padded_sequence(x, torch.tensor(lengths), **pack)
            y, last = m(p, state if len(state) == 2 else state[0]) if state else m(p)
            return pad_packed_sequence(y, **pad)[0], last

        return run

    module("packed_lstm", nn.LSTM(3, 2), (4, 3, 3), call=call([4, 2, 2]))
    module(
        "packed_lstm_both_ways",
        nn.LSTM(3, 2, num_layers=2, bidirectional=True),
        (4, 3, 3),
        (4, 3, 2),
        (4, 3, 2),
        call=call([2, 4, 1], enforce_sorted=False),
    )
    first = {"batch_first": True}
    module(
        "packed_gru",
        nn.GRU(2, 3, bidirectional=True, **first),
        (3, 5, 2),
        (2, 3, 3),
        call=call(
            [1, 3, 4], {"padding_value": 0.5, "total_length": 6, **first}, enforce_sorted=False, **first
        ),
    )
    module("packed_rnn", nn.RNN(2, 3, bidirectional=True), (3, 2, 2), call=call([3, 1]))


def computed_weights():
    from torch.nn.utils import spectral_norm, weight_norm

    torch.manual_seed(1)
    module("weight_norm", weight_norm(nn.Linear(3, 2)), (4, 3))
    module("weight_norm_dim", weight_norm(nn.Conv2d(2, 3, 2), dim=1), (2, 2, 3, 3))
    module("weight_norm_whole", weight_norm(nn.Linear(3, 2), dim=None), (4, 3))
    module("weight_norm_lstm", weight_norm(nn.LSTM(3, 2), "weight_hh_l0"), (4, 2, 3))
    module("spectral_norm", spectral_norm(nn.Linear(3, 4)), (4, 3))
    module("spectral_norm_conv", spectral_norm(nn.Conv2d(2, 3, 2), n_power_iterations=3), (2, 2, 3, 3))
    module("spectral_norm_transposed", spectral_norm(nn.ConvTranspose2d(2, 3, 2)), (1, 2, 3, 3))
    module("spectral_norm_eval", spectral_norm(nn.Linear(3, 4)), (4, 3), train=False)


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    groups = (convolutions, norms, poolings, activations, others, losses)
    for group in groups + (attention, transformers, recurrent, packed, computed_weights):
        group()
    files = sorted(FOLDER.glob("*.txt"))
    print(f"{len(files)} files, {sum(f.stat().st_size for f in files)} bytes in {FOLDER}")


main()
