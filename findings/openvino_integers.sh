#!/usr/bin/env bash
# OpenVINO on the CPU: two int32 numbers that differ are Equal, a sum of int32 loses ones, int64 is cut to 32 bits.
#
# Expected: a graph whose inputs, constants and outputs are integers is computed in integers of that type.
# Happens: Equal of int32 compares float32, so 16777217 is equal to 16777216, and ReduceSum of int32 adds in float32, so
# 16777216 + 1 + 1 + 1 is 16777216. int64 inputs are cut to their lower 32 bits before Equal and Multiply see them,
# though the output's type is int64: 2^31 times 4 is 0. Add of int32 is exact. Nothing is said at compilation.
# Seen with openvino 2026.4.1 on x86-64, 2026-11.
# Matters: models carry token numbers, hashed categories, row numbers and time stamps as integers, and compare or count
# them inside the graph. Below 2^24 all is well, and that is where one tests.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check openvino==2026.4.1 numpy==2.4.6
OPENVINO_TELEMETRY=0 "$work/venv/bin/python" - <<'EOF'
import sys

import numpy as np
import openvino as ov
import openvino.opset13 as op

print("openvino", ov.__version__)
core = ov.Core()


def run(build, *inputs):
    parameters = [op.parameter(x.shape, x.dtype.type) for x in inputs]
    return core.compile_model(ov.Model([build(*parameters)], parameters), "CPU")(list(inputs))[0]


as_described = True


def show(what, out, right, described):
    global as_described
    print(f"{what}: {out.tolist()} {out.dtype}, right is {right}")
    as_described &= out.tolist() == described


n = 2**24
show(f"Equal([{n + 1}, {n + 3}], [{n}, {n + 3}]) of int32",
     run(op.equal, np.array([n + 1, n + 3], np.int32), np.array([n, n + 3], np.int32)), [False, True], [True, True])
show(f"ReduceSum([{n}, 1, 1, 1]) of int32",
     run(lambda x: op.reduce_sum(x, np.array([0])), np.array([n, 1, 1, 1], np.int32)), n + 3, n)
show(f"Add([{n}], [1]) of int32", run(op.add, np.array([n], np.int32), np.array([1], np.int32)), [n + 1], [n + 1])
show(f"Equal([{2**32 + 5}], [5]) of int64", run(op.equal, np.array([2**32 + 5]), np.array([5])), [False], [True])
show(f"Multiply([{2**31}], [4]) of int64", run(op.multiply, np.array([2**31]), np.array([4])), [2**33], [0])
if not as_described:
    sys.exit("changed: integers are computed otherwise")
print("as described: integers are not computed as integers")
EOF
