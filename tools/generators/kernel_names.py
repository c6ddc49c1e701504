#!/usr/bin/env python3
"""Writes tools/wt/look/kernel_names.inc: which variants launch which device functions, as `wt look` takes their names.

    tools/generators/kernel_names.py WT [FILE]

Every variant of every contract is run on simt with the benchmark's small operands, in minutes (WT needs wt_race beside it).
Of a function and a variant that launches it there is one row, of the first operands where it does, and of functions that
many contracts share the first few.
"""

import json
import pathlib
import re
import subprocess
import sys

import usage

usage.answer(__doc__, least=1)

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "tools/wt/look/kernel_names.inc")
DTYPES = ("f32", "f16", "bf16")
MOST = 8  # rows of a function


def function_of(title):
    """"softmax_block" of "softmax_block<float, 256> [softmax]"."""
    return re.split(r"[< \[]", title)[0].split("::")[-1]


def launches(wt):
    """{function: {(contract, variant): (dtype, shape)}}, in the order of the contracts."""
    found = {}
    for dtype in DTYPES:
        out = subprocess.run([wt, "bench", "counters", "--dtype", dtype, "--json"], check=True, capture_output=True, text=True)
        for row in map(json.loads, out.stdout.splitlines()):
            for title in row["kernels"].split("; "):
                of = found.setdefault(function_of(title), {})
                of.setdefault((row["bench"], row["impl"]), (dtype, row["shape"]))
    return found


def main():
    text = "// Written by tools/generators/kernel_names.py: do not edit.\n// {function, contract, variant, dtype, shape}\n"
    for function, rows in sorted(launches(sys.argv[1]).items()):
        for launch, operands in list(rows.items())[:MOST]:
            text += "{" + ", ".join(json.dumps(word) for word in (function, *launch, *operands)) + "},\n"
    FILE.write_text(text)


main()
