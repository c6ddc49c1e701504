#!/usr/bin/env bash
# ONNX GroupNormalization in ONNX Runtime: data with a mean far from 0 comes out hundreds of times too large.
#
# Expected: a normalization gives about [-1.34, -0.45, 0.45, 1.34] for 10000, 10001, 10002, 10003, as
# LayerNormalization and InstanceNormalization do on the same numbers, up to some lost digits.
# Happens: the operator has no kernel of its own and is expanded into the smaller operators that the ONNX standard gives
# for it, with the variance as the mean of squares less the square of the mean, in float32. From a mean of some thousand
# on nothing of it is left: it is 0, the quotient is by the root of epsilon, and the result is 474 instead of 1.34. With
# a mean of 1000 all is well.
# Seen with onnxruntime 1.32.0 and onnx 1.23.2, opset 21, 2026-11.
# Matters: a model is checked on centred data and then fed raw sensor values, pressures in Pa or 16 bit pixels. Export
# to a form with InstanceNormalization, or subtract a constant before.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
"$work/venv/bin/python" - <<'EOF'
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper


def run(op, x, params, **attributes):
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "scale", "bias"], ["y"], **attributes)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor("scale", TensorProto.FLOAT, [params], [1.0] * params),
         helper.make_tensor("bias", TensorProto.FLOAT, [params], [0.0] * params)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0].ravel()


print("onnxruntime", ort.__version__, "onnx", onnx.__version__)
seen = {}
for mean in (0, 1000, 10000):
    x = np.array([0, 1, 2, 3], np.float32).reshape(1, 1, 4) + np.float32(mean)
    print("x =", x.ravel().tolist())
    for op, params, attributes in (("GroupNormalization", 1, {"num_groups": 1}), ("LayerNormalization", 4, {}),
                                   ("InstanceNormalization", 1, {})):
        y = run(op, x, params, epsilon=1e-5, **attributes)
        seen[op, mean] = float(np.abs(y).max())
        print(f"  {op:>21}: {np.round(y, 3).tolist()}")
far = seen.pop(("GroupNormalization", 10000))
if abs(far - 1.342) < 0.1 or any(abs(value - 1.342) > 0.01 for value in seen.values()):
    sys.exit("changed: GroupNormalization bears a large mean now, or something else does not")
print(f"as described: the largest value is {far:.2f} where 1.34 is right")
EOF
