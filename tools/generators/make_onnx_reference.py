#!/usr/bin/env python3
"""Writes tests/reference/onnx: ONNX files by other writers, for onnx::load to read.

    tools/generators/make_onnx_reference.py [FOLDER]

needs torch, onnx and onnxruntime; what is checked in needs no Python. NAME.onnx is the model, NAME.txt, in
the format of tests/reference/reader.h, what goes in and what onnxruntime makes of it. torch_*: by PyTorch's
exporter. helper_*: node by node, in forms that neither PyTorch nor this library writes.
"""

import pathlib
import sys

import usage

usage.answer(__doc__)

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from torch import nn  # noqa: E402

FOLDER = pathlib.Path(
    sys.argv[1]
    if len(sys.argv) > 1
    else pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "onnx"
)


def shape_text(shape):
    return "x".join(str(n) for n in shape) if shape else "scalar"


def rows(a):
    flat = a.reshape(-1, a.shape[-1] if a.ndim else 1)
    return "\n".join(" ".join(repr(float(v)) if a.dtype != np.int64 else str(v) for v in r) for r in flat)


def write(name, inputs):
    """Runs NAME.onnx and writes NAME.txt."""
    path = FOLDER / f"{name}.onnx"
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = session.run(None, {i.name: v for i, v in zip(session.get_inputs(), inputs)})
    parts = [f"# {name}: made by tools/generators/make_onnx_reference.py with onnxruntime {onnxruntime.__version__}"]
    arrays = [(f"in.{k}", v) for k, v in enumerate(inputs)] + [(f"out.{k}", v) for k, v in enumerate(outputs)]
    for key, a in arrays:
        kind = {"float32": "f32", "int64": "i64"}[str(a.dtype)]
        parts.append(f"{key} {kind} {shape_text(a.shape)}\n{rows(a)}")
    (FOLDER / f"{name}.txt").write_text("\n".join(parts) + "\n")
    print(name, path.stat().st_size, "bytes")


def export(name, model, inputs, **options):
    torch.onnx.export(
        model.eval(), tuple(inputs), str(FOLDER / f"{name}.onnx"), dynamo=False, training=torch.onnx.TrainingMode.EVAL,
        do_constant_folding=False, **options,
    )
    write(name, [v.numpy() for v in inputs])


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 6, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.depthwise = nn.Conv2d(6, 6, 3, stride=2, groups=6)
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.group = nn.GroupNorm(2, 4)
        self.act = nn.Hardswish()
        self.fc = nn.Linear(4 * 2 * 2, 3)

    def forward(self, x):
        x = nn.functional.relu6(self.bn1(self.conv1(x)))
        x = nn.functional.max_pool2d(x, 2, ceil_mode=True)
        x = self.act(self.group(self.up(self.depthwise(x))))
        x = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        x = nn.functional.avg_pool2d(nn.functional.pad(x, (1, 1, 0, 2)), 3, stride=2)
        return self.fc(torch.flatten(x[:, :, 1:3, -2:], 1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.qkv = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)

    def forward(self, ids):
        b, t = ids.shape
        x = self.embed(ids)
        q, k, v = self.qkv(self.norm(x)).split(8, dim=2)
        q, k, v = (a.view(b, t, 2, 4).transpose(1, 2) for a in (q, k, v))
        scores = q @ k.transpose(-2, -1) / 2.0
        seen = torch.tril(torch.ones(t, t)).view(1, 1, t, t)
        scores = scores.masked_fill(seen == 0, float("-inf"))
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(b, t, 8)
        y = nn.functional.gelu(x + y)
        return self.head(y), y.mean(dim=(1, 2)), torch.argmax(y, dim=-1)


def spread(model):
    """Weights that are short decimals, so that both sides of an f32 are the same."""
    for k, t in enumerate(model.state_dict().values()):
        if t.is_floating_point():
            n = torch.arange(t.numel(), dtype=torch.float32)
            t.copy_((((n * 37 + k * 11) % 64 - 32) / 64).reshape(t.shape).abs() + 0.25 if t.ndim == 1 else
                    (((n * 37 + k * 11) % 64 - 32) / 64).reshape(t.shape))
    return model


def forms():
    """What differs between opsets and writers: attributes for inputs, numbers that are not raw bytes, Constant
    nodes, padding by name, scalars of Gemm, names that are left out."""
    weight = (np.arange(2 * 2 * 3 * 3, dtype=np.float32).reshape(2, 2, 3, 3) % 7 - 3) / 8
    plain = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=weight.shape)
    plain.float_data.extend(weight.ravel())
    sizes = TensorProto(name="sizes", data_type=TensorProto.INT64, dims=[2])
    sizes.int64_data.extend([0, -1])
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("ReduceMean", ["c"], ["m"], axes=[-1], keepdims=0),
        node("Constant", [], ["half"], value=numpy_helper.from_array(np.array(0.5, np.float32))),
        node("Constant", [], ["lows"], value_ints=[1]),
        node("Clip", ["m", "", "half"], ["k"]),
        node("Reshape", ["k", "sizes"], ["r"]),
        node("Constant", [], ["b"], value=numpy_helper.from_array(np.ones((6, 4), np.float32) / 4)),
        node("Constant", [], ["add"], value=numpy_helper.from_array(np.arange(4, dtype=np.float32))),
        node("Gemm", ["r", "b", "add"], ["g"], alpha=0.5, beta=2.0),
        node("Split", ["g", "parts"], ["s0", "s1"], axis=1),
        node("Slice", ["s1", "lows", "ends", "axes", "back"], ["turned"]),
        node("Concat", ["s0", "turned"], ["y"], axis=-1),
        node("Shape", ["y"], ["shape"]),
        node("HardSigmoid", ["y"], ["z"]),
        node("TopK", ["z", "two"], ["least", "places"], largest=0),
    ]
    constants = [plain, sizes] + [
        numpy_helper.from_array(np.array(v, np.int64), n)
        for n, v in (("parts", [1, 3]), ("ends", [-9]), ("axes", [1]), ("back", [-1]), ("two", [2]))
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "forms", [value("x", TensorProto.FLOAT, ["n", 2, 6, 5])],
        [
            value("z", TensorProto.FLOAT, ["rows", 3]),
            value("shape", TensorProto.INT64, [2]),
            value("places", TensorProto.INT64, ["rows", 2]),
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7, producer_name="by hand")
    onnx.save(model, FOLDER / "helper_forms.onnx")
    x = ((np.arange(2 * 2 * 6 * 5) * 29 % 31 - 15) / 16).astype(np.float32).reshape(2, 2, 6, 5)
    write("helper_forms", [x])


FOLDER.mkdir(parents=True, exist_ok=True)
numbers = torch.arange(2 * 2 * 9 * 8, dtype=torch.float32)
export("torch_pictures", spread(Pictures()), [((numbers * 29 % 31 - 15) / 16).reshape(2, 2, 9, 8)],
       input_names=["image"], output_names=["scores"], dynamic_axes={"image": {0: "batch"}}, opset_version=17)
export("torch_words", spread(Words()), [torch.arange(10).reshape(2, 5) * 7 % 11],
       input_names=["ids"], output_names=["logits", "mean", "best"], opset_version=18)
forms()
