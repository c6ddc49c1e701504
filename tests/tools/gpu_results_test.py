"""tools/gpu_results.py: what it makes of a folder of the gate, what it refuses, and that what is committed is what
it writes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "tools", "gpu_results.py")
README = "# x\n\n<!-- gpu: written by tools/gpu_results.py -->\nold\n<!-- end of gpu -->\nkept\n"


def kernel(bench, impl, us, ratio, **more):
    return {"bench": bench, "impl": impl, "shape": "[8192, 768]", "dtype": "f32", "median_us": us, "ratio": ratio,
            "bound": "copy", "check": "right", "commit": "abc", **more}  # fmt: skip


def step(impl, us):
    return {"bench": "gpt", "impl": impl, "shape": "1", "dtype": "bf16", "median_us": us, "check_loss": 2.0,
            "commit": "abc"}  # fmt: skip


def model(bench, shape, ratio, **more):
    return {"bench": bench, "shape": shape, "dtype": "f32", "ratio": ratio, "bound": "copy", "of_product": 0, **more}


ROWS = [
    {"bench": "probe", "impl": "-", "shape": "-", "dtype": "-", "commit": "abc"},
    {"bench": "ceiling_copy", "impl": "memcpy", "shape": "1", "dtype": "u8", "median_us": 5.0, "gb_s": 4300.0},
    {"bench": "ceiling_gemm", "impl": "cublaslt", "shape": "2", "dtype": "bf16", "median_us": 5.0, "tflop_s": 790.0},
    kernel("softmax_forward", "naive", 50, 0.1),
    kernel("softmax_forward", "warp", 10, 0.5),
    kernel("softmax_forward", "block", 1, 0.9, check="wrong"),
    kernel("add", "vectorized", 10, 0.9),
    kernel("scatter", "odd", 10, 0.2),
    kernel("matmul", "tensor_core", 10, 0.8, bound="gemm", dtype="bf16"),
    step("warptape captured", 100.0),
    step("torch eager", 150.0),
    step("torch compile", 120.0),
    step("torch compile", 130.0),
    step("warptape captured", 110.0),
]
MODELS = [
    model("softmax_warp<f32,4,32>", "H200", 0.9),
    model("softmax_warp<f32,4,32>", "H100 SXM", 0.1),
    model("add<f32>", "H200", 1.0),
    model("matmul_mma<bf16>", "H200", 0.62, dtype="bf16", bound="mma", of_product=1),
]
STATE = [
    {"device": "NVIDIA H200, driver for CUDA 13.0, warptape 0.1.0 abc", "emulated": False},
    {"call": "2026-12-01 10:00 UTC"},
    {"part": "check", "item": "sort", "result": "FAILED: hung: nothing for 30 s"},
    {"part": "check", "result": "FAILED: sort"},
    {"part": "steps", "result": "passed"},
    {"part": "tune", "spent": 200.0},
]


class Results(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.root, self.out = os.path.join(self.dir, "root"), os.path.join(self.dir, "out")
        for folder in (self.root, self.out):
            os.mkdir(folder)
        self.put("root/README.md", README)
        self.put("wt", '#!/bin/sh\ncat "$(dirname "$0")/models"\n')
        os.chmod(os.path.join(self.dir, "wt"), 0o755)
        self.lines("models", MODELS)
        self.lines("out/gpu_gate.jsonl", ROWS)
        self.lines("out/gpu_gate_state.jsonl", STATE)
        self.put("out/gpu_gate.md", "# GPU gate\n")
        self.put("out/tune.tsv", "warptape tune 1\n")

    def put(self, name, text):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
            f.write(text)

    def lines(self, name, rows):
        self.put(name, "".join(json.dumps(r) + "\n" for r in rows))

    def text(self, name):
        with open(os.path.join(self.dir, name), encoding="utf-8") as f:
            return f.read()

    def run_script(self, *args):
        p = subprocess.run([sys.executable, SCRIPT, "--root", self.root, *args], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        self.said = p.stdout
        return p.returncode

    def take(self):
        return self.run_script(self.out, "--wt", os.path.join(self.dir, "wt"))

    def publish(self):
        self.assertEqual(self.take(), 0, self.said)
        return self.text("root/docs/gpu_results.md")

    def test_what_is_committed_is_what_is_written(self):
        p = subprocess.run([sys.executable, SCRIPT, "--check"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(p.returncode, 0, p.stdout)

    def test_pages(self):
        page = self.publish()
        folder = os.path.join(self.root, "bench/results/nvidia-h200")
        self.assertEqual(sorted(os.listdir(folder)), ["gpu_gate.jsonl", "gpu_gate.md", "gpu_gate_state.jsonl",
                                                      "model.jsonl", "tune.tsv"])  # fmt: skip
        self.assertIn("## NVIDIA H200", page)
        self.assertLess(page.index("- check: **sort** hung"), page.index("### Ceilings"))
        self.assertIn("| tune | not finished |", page)
        self.assertIn("| copy | memcpy | 1 | u8 | 5.00 | 4300.0 GB/s |", page)
        self.assertIn("beside PyTorch's fastest, torch compile", page)
        self.assertIn("- softmax_forward:block: wrong (f32, [8192, 768])", page)
        # The fastest right variant, beside the prediction for this GPU; the farthest from its ceiling first.
        self.assertIn("| softmax_forward | [8192, 768] | f32 | warp | 10.00 | 0.50 of copy | 0.90 (copy) |", page)
        self.assertIn("| scatter | [8192, 768] | f32 | odd | 10.00 | 0.20 of copy | none |", page)
        self.assertLess(page.index("| scatter |"), page.index("| softmax_forward |"))
        off = page[page.index("The model was off") :]
        self.assertIn("- softmax_forward f32 [8192, 768] (warp): 0.50, predicted 0.90", off)
        self.assertNotIn("- add", off)
        self.assertNotIn("- matmul", off)  # 0.8 of 790 is 0.64 of 989
        self.assertIn("| matmul | [8192, 768] | bf16 | tensor_core | 10.00 | 0.80 of gemm | 0.62 (mma) |", page)
        readme = self.text("root/README.md")
        self.assertIn("on NVIDIA H200 (2026-12-01, abc): steps passed; failed: check sort", readme)
        self.assertNotIn("old", readme)
        self.assertTrue(readme.endswith("kept\n"))
        self.assertEqual(self.run_script("--check"), 0)
        self.put("root/docs/gpu_results.md", page + "more\n")
        self.assertEqual(self.run_script("--check"), 1)

    def test_a_second_run_takes_the_place_of_the_first(self):
        self.publish()
        self.lines("out/gpu_gate.jsonl", [ROWS[0], kernel("softmax_forward", "warp", 5, 0.95)])
        page = self.publish()
        self.assertIn("| softmax_forward | [8192, 768] | f32 | warp | 5.00 | 0.95 of copy", page)
        self.assertIn("| scatter |", page)
        rows = self.text("root/bench/results/nvidia-h200/gpu_gate.jsonl").splitlines()
        self.assertEqual(sum('"softmax_forward"' in r and '"warp"' in r for r in rows), 1)

    def test_without_results(self):
        self.assertEqual(self.run_script(), 0)
        self.assertIn("Nothing of `cuda` has run on a GPU yet", self.text("root/README.md"))
        self.assertFalse(os.path.exists(os.path.join(self.root, "docs")))

    def refused(self, words):
        self.assertEqual(self.take(), 2, self.said)
        self.assertIn(words, self.said)
        self.assertFalse(os.path.exists(os.path.join(self.root, "bench")))
        self.assertEqual(self.text("root/README.md"), README)

    def test_refusals(self):
        self.lines("out/gpu_gate_state.jsonl", [{**STATE[0], "emulated": True}])
        self.refused("is a rehearsal")
        self.lines("out/gpu_gate_state.jsonl", [{"device": "NVIDIA H100 80GB HBM3 (emulated), driver"}])
        self.refused("is a rehearsal")
        self.lines("out/gpu_gate_state.jsonl", STATE[1:])
        self.refused("names no device")
        self.lines("out/gpu_gate_state.jsonl", STATE)
        self.lines("out/gpu_gate.jsonl", ROWS[1:])
        self.refused("no row of the probe")
        self.lines("out/gpu_gate.jsonl", [ROWS[0], {**step("warptape eager", 1.0), "commit": ""}])
        self.refused("name no commit")
        shutil.rmtree(self.out)
        self.refused("is no folder of tools/gpu_gate.sh")

    def test_no_marks(self):
        self.put("root/README.md", "# x\n")
        self.assertEqual(self.take(), 2)
        self.assertFalse(os.path.exists(os.path.join(self.root, "bench")))


if __name__ == "__main__":
    unittest.main()
