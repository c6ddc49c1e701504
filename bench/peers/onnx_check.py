#!/usr/bin/env python3
"""ONNX files of warptape elsewhere: onnx.checker's full check, and the numbers of onnxruntime.

    bench/peers/onnx_check.py [--tests build/release/wt_tests] [--wt build/release/wt] [--model NAME ...]
                              [--folder DIR] [--tolerance 1e-5]

--tests: the files of the tests `[#onnx_*]`, an operator or a small model each. --wt: the models of `wt models`
at full size (all, or those of --model). --folder: where the files are made, and stay; else they go. Without
--tests and --wt the files that are there already are checked. Beside NAME.onnx stands NAME.safetensors with
what goes in ("in.0") and what came out of warptape ("out.0").

An output x is right where |x - y| <= tolerance * (1 + |y|); of f16 and bf16 4e-3 and 3e-2 take its place. What
onnxruntime has no kernel for on the CPU is counted and named, not hidden. Exit code 1 where a file is refused
or a number is wrong, 77 where Python has no onnx or onnxruntime.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

LOOSER = {"F16": 4e-3, "BF16": 3e-2}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests")
    parser.add_argument("--wt")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--folder")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    return parser.parse_args()


def tensors_of(path):
    """name: (numpy array, dtype in the file) of a safetensors file; bf16 as f32."""
    import numpy as np

    kinds = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2", "I64": "i8", "I32": "i4", "U8": "u1", "BOOL": "?"}
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    found = {}
    for name, entry in json.loads(content[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        a = np.frombuffer(content[begin:end], kinds[entry["dtype"]])
        if entry["dtype"] == "BF16":
            a = (a.astype("u4") << 16).view("f4")
        found[name] = (a.reshape(entry["shape"]), entry["dtype"])
    return found


def list_of(tensors, prefix):
    return [tensors[f"{prefix}.{k}"] for k in range(sum(name.startswith(prefix + ".") for name in tensors))]


def apart(got, want):
    import numpy as np

    if got.shape != want.shape:
        return f"shape {got.shape} for {want.shape}"
    a, b = got.astype("f8"), want.astype("f8")
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b) / (1 + np.abs(b))
    difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, difference)
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0))


def check(path, tolerance):
    """("ok" | "wrong" | "no kernel", what)."""
    import onnx
    import onnxruntime

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as e:  # of several unrelated classes
        return "wrong", f"onnx.checker: {str(e).splitlines()[0]}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    tensors = tensors_of(path.with_suffix(".safetensors"))
    inputs, wanted = list_of(tensors, "in"), list_of(tensors, "out")
    if any(dtype == "BF16" for _, dtype in inputs + wanted):
        return "no kernel", "bfloat16 cannot be handed over from numpy"
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as e:
        missing = "NOT_IMPLEMENTED" in str(e)
        return "no kernel" if missing else "wrong", str(e).splitlines()[0]
    got = session.run(None, {i.name: a for i, (a, _) in zip(session.get_inputs(), inputs)})
    worst = 0.0
    for k, (ours, (want, dtype)) in enumerate(zip(got, wanted)):
        distance = apart(ours, want)
        allowed = max(tolerance, LOOSER.get(dtype, 0))
        if isinstance(distance, str) or distance > allowed:
            return "wrong", f"output {k}: {distance}"
        worst = max(worst, distance if dtype not in LOOSER else 0.0)
    return "ok", worst


def make_files(args, folder):
    if args.tests:
        environment = {**os.environ, "WT_ONNX_KEEP": str(folder)}
        for file in ("onnx_operators_test", "onnx_layers_test", "onnx_models_test"):
            subprocess.run([args.tests, "-#", f"[#{file}]"], check=True, env=environment, stdout=subprocess.DEVNULL)
    if args.wt:
        command = [args.wt, "models", *args.model, "--onnx", str(folder), "--sample"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main():
    args = arguments()
    try:
        import onnx
        import onnxruntime
    except ImportError as e:
        print(f"SKIPPED: {e}; python3 -m pip install onnx onnxruntime")
        return 77
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(args.folder or made)
        folder.mkdir(parents=True, exist_ok=True)
        make_files(args, folder)
        counts = {"ok": 0, "no kernel": 0, "wrong": 0}
        worst = 0.0
        for path in sorted(folder.glob("*.onnx")):
            if not path.with_suffix(".safetensors").exists():
                continue
            verdict, what = check(path, args.tolerance)
            counts[verdict] += 1
            if verdict == "ok":
                worst = max(worst, what)
            else:
                print(f"{path.stem}: {verdict}: {what}")
    print(
        f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: {counts['ok']} files right, the furthest"
        f" {worst:.1e} apart; {counts['no kernel']} without a kernel there; {counts['wrong']} wrong"
    )
    return 1 if counts["wrong"] or not counts["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
