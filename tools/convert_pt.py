#!/usr/bin/env python3
"""Turns a PyTorch file (.pt, .pth, .bin, .ckpt: what torch.save wrote) into safetensors.

    tools/convert_pt.py model.pt [--output model.safetensors] [--key state_dict] [--force]

warptape never reads pickles: they can run code. This program needs torch and numpy, reads with
weights_only=True, so that nothing but tensors and plain values is made, and writes what
nn::load_model, nn::load_tensors and safetensors.torch.load_file read. Of the dtypes that the format
has, warptape lacks complex64, float4_e2m1fn_x2 (whose last axis the format counts in halves of a
byte), float8_e8m0fnu, float8_e4m3fnuz and float8_e5m2fnuz: those are written, and named on stderr.

The state dict is the file itself, or its member "state_dict", "model_state_dict", "model", ... (or
what --key says, with dots for members of members). "module." and "_orig_mod." before every name
(DataParallel, torch.compile) are taken away. Every name keeps its own bytes: tensors that share
memory are written once each. What is no tensor is left out and named on stderr.

Exit codes: 0 done, 2 wrong arguments or no torch, 3 the file is not what it should be, 8 the output
cannot be written.
"""

import argparse
import json
import os
import sys
import tempfile
import warnings

USAGE, DATA, OUTPUT = 2, 3, 8
MEMBERS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params", "module")
PREFIXES = ("module.", "_orig_mod.")
# Of torch's dtypes by name: those that the format has.
FORMAT = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
    "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "complex64": "C64", "float4_e2m1fn_x2": "F4", "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
}  # fmt: skip
# Of these, those that warptape has no dtype for.
OTHERS = ("C64", "F4", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def read(torch, path):
    """What the file holds, made of nothing but tensors and plain values."""
    if not os.path.isfile(path):
        raise Refused(DATA, f"{path}: there is no such file")
    with open(path, "rb") as file:
        if file.read(2) not in (b"PK", b"\x80\x02"):
            raise Refused(DATA, f"{path}: is nothing that torch.save writes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has many kinds for what is wrong with a file
        text = " ".join(str(error).split())
        if "TorchScript" in text or "torch.jit" in text:
            why = (
                "it is a TorchScript archive, which holds code; save the weights instead: "
                "torch.save(torch.jit.load(file).state_dict(), ...)"
            )
        elif "WeightsUnpickler" in text or "weights_only" in text or "Weights only" in text:
            why = (
                "it holds more than tensors and plain values, and making those could run code; "
                "save the state dict alone: torch.save(model.state_dict(), ...)"
            )
        else:
            why = f"torch.load: {text[:300]}"
        raise Refused(DATA, f"{path}: {why}") from error


def is_state(torch, value):
    return isinstance(value, dict) and any(isinstance(t, torch.Tensor) for t in value.values())


def member(value, key, path):
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            has = ", ".join(map(str, list(value)[:20])) if isinstance(value, dict) else "no members"
            raise Refused(USAGE, f"{path}: has no '{key}' (it has {has})")
        value = value[part]
    return value


def find_state(torch, value, key, path):
    """The mapping from names to tensors, and where it was."""
    if key:
        value = member(value, key, path)
        if not is_state(torch, value):
            raise Refused(DATA, f"{path}: '{key}' is no state dict")
        return value, key
    if not isinstance(value, dict):
        raise Refused(DATA, f"{path}: is a {type(value).__name__}, no state dict")
    where = []
    # A checkpoint may have tensors beside its state dict; a state dict has no dicts.
    while inner := next((k for k in MEMBERS if isinstance(value.get(k), dict)), None):
        where.append(inner)
        value = value[inner]
    if not is_state(torch, value):
        names = ", ".join(map(str, list(value)[:20])) or "nothing"
        raise Refused(DATA, f"{path}: no state dict is found in it; it has {names} (--key says which)")
    return value, ".".join(where)


def without_prefixes(names):
    """The part before every name that wrappers of modules put there."""
    taken = ""
    while True:
        prefix = next((p for p in PREFIXES if names and all(n.startswith(taken + p) for n in names)), None)
        if prefix is None:
            return taken
        taken += prefix


def check(torch, name, t, path):
    if not isinstance(name, str):
        raise Refused(DATA, f"{path}: a tensor is named {name!r}, which is no text")
    kind = str(t.dtype).removeprefix("torch.")
    why = None
    if name == "__metadata__":
        why = "has a name that the format keeps for itself"
    elif t.layout != torch.strided:
        why = f"is {str(t.layout).removeprefix('torch.')}; make it dense first"
    elif t.is_quantized:
        why = "is quantized; call dequantize() first"
    elif t.is_meta:
        why = "has no values (meta)"
    elif kind not in FORMAT:
        why = f"is {kind}, which the format does not have"
    elif FORMAT[kind] == "F4" and t.dim() == 0:
        why = f"is {kind} without an axis, of which the format cannot say that it has two values"
    if why:
        raise Refused(DATA, f"{path}: tensor '{name}' {why}")
    return FORMAT[kind]


def tensors_of(torch, state, path):
    """(name, format's dtype, tensor) in the order of the file; names without wrappers' prefixes."""
    tensors = {n: t for n, t in state.items() if isinstance(t, torch.Tensor)}
    others = [str(n) for n in state if n not in tensors]
    if others:
        print(f"convert_pt: left out, no tensors: {', '.join(others[:20])}", file=sys.stderr)
    rows = [(n, check(torch, n, t, path), t) for n, t in tensors.items()]
    unread = [f"{n} ({kind})" for n, kind, _ in rows if kind in OTHERS]
    if unread:
        print(f"convert_pt: warptape does not read: {', '.join(unread[:20])}", file=sys.stderr)
    prefix = without_prefixes([n for n, _, _ in rows])
    if prefix:
        print(f"convert_pt: '{prefix}' is taken from every name", file=sys.stderr)
    rows = [(n[len(prefix) :], kind, t) for n, kind, t in rows]
    # Large elements first, so that every tensor is aligned; then by name: equal content, equal file.
    return sorted(rows, key=lambda r: (-r[2].element_size(), r[0].encode()))


def bytes_of(torch, t):
    return t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy()


def header(rows):
    entries, at = {"__metadata__": {"format": "pt"}}, 0
    for name, kind, t in rows:
        size = t.numel() * t.element_size()
        shape = list(t.shape)
        if kind == "F4":  # two in a byte
            shape[-1] *= 2
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def write(torch, rows, path):
    """All or nothing: another file in the folder first, which then takes the name."""
    folder = os.path.dirname(os.path.abspath(path))
    temporary = None
    try:
        mask = os.umask(0)
        os.umask(mask)
        number, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".tmp", dir=folder)
        with os.fdopen(number, "wb") as out:
            os.fchmod(out.fileno(), 0o666 & ~mask)
            text = header(rows)
            out.write(len(text).to_bytes(8, "little"))
            out.write(text)
            for _, _, t in rows:
                out.write(memoryview(bytes_of(torch, t)))
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
        temporary = None
        number = os.open(folder, os.O_RDONLY)
        os.fsync(number)
        os.close(number)
    except OSError as error:
        raise Refused(OUTPUT, f"{path} cannot be written: {error.strerror}") from error
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def convert(options):
    output = options.output or os.path.splitext(options.file)[0] + ".safetensors"
    if os.path.realpath(output) == os.path.realpath(options.file):
        raise Refused(USAGE, f"{output}: the output is the input")
    if os.path.exists(output) and not os.path.isfile(output):
        raise Refused(OUTPUT, f"{output} cannot be written: it is no regular file")
    if os.path.exists(output) and not options.force:
        raise Refused(USAGE, f"{output}: is there already (--force overwrites it)")
    if sys.byteorder != "little":
        raise Refused(USAGE, "safetensors is little-endian, this machine is not")
    try:
        import numpy  # noqa: F401  torch's tensors give their bytes through it
        import torch
    except ImportError as error:
        raise Refused(USAGE, f"{error}; pip install torch numpy, or use the Python that has them") from error
    state, where = find_state(torch, read(torch, options.file), options.key, options.file)
    rows = tensors_of(torch, state, options.file)
    write(torch, rows, output)
    size = sum(t.numel() * t.element_size() for _, _, t in rows)
    print(f"{output}: {len(rows)} tensors, {size} bytes" + (f", from '{where}'" if where else ""))


def main():
    parser = argparse.ArgumentParser(description="Turns a PyTorch file into safetensors.", epilog=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("file", help="what torch.save wrote")
    parser.add_argument("--output", "-o", help="the file to write (FILE with the ending .safetensors)")
    parser.add_argument("--key", help="the member that is the state dict, such as state_dict or a.b")
    parser.add_argument("--force", action="store_true", help="overwrite the output")
    try:
        convert(parser.parse_args())
    except Refused as error:
        print(f"convert_pt: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
