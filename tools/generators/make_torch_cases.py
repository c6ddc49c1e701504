#!/usr/bin/env python3
"""Writes tests/reference/torch/*.txt: what PyTorch makes of the samples in tests/op_cases.

    bench/peers/setup.sh && bench/peers/.venv/bin/python tools/generators/make_torch_cases.py build/ci/wt_tests

A row's sample says its call in PyTorch (`torch`, tests/op_cases/op_case.h). The test program writes
the inputs; this script evaluates the expression of inputs a, b, c, ... in f64 and writes the result
(`sK.FINGERPRINT.out`) and the gradients of `grad_out` (`sK.grad_a`) in the format of
tests/reference/reader.h. The files are checked in, so no test needs Python.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import usage

usage.answer(__doc__, least=1)

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "torch"
DTYPES = {"f64": torch.float64, "i64": torch.int64, "bool": torch.bool}


def read(path):
    """[(number, fingerprint, gradients, expression, {name: tensor})] of a file of inputs."""
    samples, lines = [], iter(path.read_text().splitlines())
    for line in lines:
        if line.startswith("sample "):
            _, number, mark, wanted, expression = line.split(" ", 4)
            samples.append((number, mark, wanted.strip("-"), expression, {}))
            continue
        name, dtype, shape = line.split()
        sizes = [] if shape == "scalar" else [int(n) for n in shape.split("x")]
        count, values = 1, []
        for n in sizes:
            count *= n
        while len(values) < count:
            values += [float(v) for v in next(lines).split()]
        samples[-1][4][name] = torch.tensor(values, dtype=torch.float64).reshape(sizes).to(DTYPES[dtype])
    return samples


def lines_of(name, value):
    kind = "f64" if value.is_floating_point() else "i64"
    shape = "x".join(map(str, value.shape)) or "scalar"
    form = "%.17g" if kind == "f64" else "%d"
    values = [form % v for v in value.detach().reshape(-1).tolist()]
    return [f"{name} {kind} {shape}"] + [" ".join(values[i : i + 4]) for i in range(0, len(values), 4)]


def evaluate(number, mark, wanted, expression, arrays):
    for letter in wanted:
        arrays[letter].requires_grad_()
    out = eval(expression, {"torch": torch, "F": F, **arrays})
    lines = lines_of(f"s{number}.{mark}.out", out.to(torch.int64) if out.dtype == torch.bool else out)
    if not wanted:
        return lines
    sent = arrays["grad_out"]
    if sent.shape != out.shape:
        raise ValueError(f"PyTorch's result is {tuple(out.shape)}, ours {tuple(sent.shape)}")
    of = [arrays[letter] for letter in wanted]
    grads = torch.autograd.grad(out, of, sent, allow_unused=True)
    for letter, x, g in zip(wanted, of, grads):
        lines += lines_of(f"s{number}.grad_{letter}", torch.zeros_like(x) if g is None else g)
    return lines


def main():
    program, wrong = sys.argv[1], 0
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [program, "operators: PyTorch's numbers"],
            env={**os.environ, "WT_WRITE_TORCH_INPUTS": folder, "WT_TEST_DEVICES": "cpu"},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        files = sorted(pathlib.Path(folder).iterdir())
        for old in FOLDER.glob("*.txt"):
            if old.name not in {f.name for f in files}:
                old.unlink()
        for path in files:
            lines = [f"# {path.stem}: made by tools/generators/make_torch_cases.py with PyTorch {torch.__version__}"]
            for number, mark, wanted, expression, arrays in read(path):
                try:
                    lines += [f"# {expression}"] + evaluate(number, mark, wanted, expression, arrays)
                except Exception as error:
                    wrong += 1
                    print(f"{path.stem}, sample {number}: {expression}\n    {error}", file=sys.stderr)
            (FOLDER / path.name).write_text("\n".join(lines) + "\n")
    print(f"{len(files)} operators in {FOLDER}, {wrong} samples without numbers")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
