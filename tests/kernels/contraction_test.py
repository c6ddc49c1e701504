#!/usr/bin/env python3
"""Kernels that promise the same bits on every device have no product that ptxas may round together with a sum.

    contraction_test.py NVCC INCLUDE GENERATED

nvcc makes fma of a * b + c, which the emulated device shows. It leaves a * b - c * d, c - a * b and products of
16-bit floats as two instructions of PTX, and ptxas fuses them then: a difference that only a GPU would show.
What is to be rounded twice is float_math::product() or __fmul_rn(), whose instruction says .rn.

Looked at are the .cu files that include a header with such a promise, and those below. Exit code 77: no nvcc.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISE = re.compile(r"the same bits on (all|every|both)\b(?! machine)")
ALSO = {"dropout", "image_erase", "sample_batch"}  # whose promise is the operator's, or the transform's
# Of optim_step.h powers alone are promised; a draw by weight differs once in 10^14 (sort_draws.cu says so).
EXCEPT = {"grad_norm", "loss_scale", "muon", "optim_rule", "optim_rule_more", "optim_step", "sort_draws"}
INCLUDE = re.compile(r'#include "warptape/(kernels/[^"]+)"')
RESULT = re.compile(r"(?:@\S+\s+)?\{?(\w+)((?:\.\w+)*)\s+(%\w+),\s*(.*?);")
FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
EXACT = re.compile(r"^0(d[0-9A-F]{3}0{13}|f[0-9A-F]{2}[08]0{5})$")  # a power of two


def words(path):
    return re.sub(r"\s*\n\s*//\s*|\s+", " ", path.read_text())


def promises(path, seen=None):
    """Whether the file, or a header of kernels/ that it includes, has the promise."""
    seen = set() if seen is None else seen
    if path in seen or not path.is_file():
        return False
    seen.add(path)
    return (path.suffix != ".cuh" and PROMISE.search(words(path)) is not None) or any(
        promises(ROOT / name, seen) for name in INCLUDE.findall(path.read_text()))


def loose(ptx):
    """(kernel, product, sum) of what ptxas may fuse."""
    kernel, products = "?", {}
    for line in ptx.splitlines():
        start = re.search(r"\.(?:entry|func)\b.*?([A-Za-z_]\w*)\s*\(?$", line)
        if start:
            kernel, products = start[1], {}
        found = RESULT.search(line)
        if not found:
            continue
        name, how, to, operands = found[1], found[2].strip(".").split("."), found[3], found[4]
        operands = [o.strip() for o in operands.split(",")]
        if name in ("add", "sub") and "rn" not in how:
            for o in operands:
                if o in products:
                    yield kernel, products[o], line.strip()
        products.pop(to, None)
        if name == "mul" and FLOATS & set(how) and "rn" not in how and not any(map(EXACT.match, operands)):
            products[to] = line.strip()


def main(nvcc, include, generated):
    if not shutil.which(nvcc):
        print("SKIPPED: no nvcc")
        return 77
    example = ".entry k(\nmul.f32 %f1, %f2, %f3;\nsub.f32 %f4, %f5, %f1;\nmul.rn.f32 %f6, %f2, %f3;\nadd.f32 %f7, %f6, %f5;"
    assert len(list(loose(example))) == 1, "what is looked for is not found"
    files = sorted(p for p in (ROOT / "kernels").rglob("*.cu")
                   if p.stem in ALSO or p.stem not in EXCEPT and promises(p))
    if len(files) < 8:
        print(f"FAILED: only {len(files)} files have the promise: is it worded otherwise now?")
        return 1
    bad = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        def compiled(path):
            out = Path(folder) / f"{path.stem}.ptx"
            done = subprocess.run([nvcc, "-std=c++20", "-O3", "-ptx", "-arch=compute_90a", "--expt-relaxed-constexpr",
                                   "--extended-lambda", f"-I{include}", f"-I{generated}", str(path), "-o", str(out)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return path, done.stdout, out.read_text() if done.returncode == 0 else None
        for path, said, ptx in pool.map(compiled, files):
            if ptx is None:
                print(f"FAILED: {path.relative_to(ROOT)} does not compile:\n{said}")
                bad += 1
                continue
            for kernel, product, total in loose(ptx):
                print(f"FAILED: {path.relative_to(ROOT)}, {kernel}: {product} goes into {total}")
                bad += 1
    print(f"{len(files)} files: {', '.join(p.stem for p in files)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
