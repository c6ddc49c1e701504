#!/usr/bin/env python3
"""tools/gpu_results.py over folders of results that nobody measured: what is kept and written, in what
order, with which figures; what is refused; that a refusal or a failure leaves everything as it was."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRIPT = os.path.join(ROOT, "tools", "gpu_results.py")
sys.path.insert(0, os.path.join(ROOT, "tools", "results"))
import prediction  # noqa: E402

COMMIT = "d5ff5730170f"
README = "# warptape\n\nBefore.\n\n<!-- gpu: written by tools/gpu_results.py -->\nold\n<!-- end of gpu -->\n\nBehind.\n"
COLUMNS = "contract\tdtype\tsize\tshape\tbytes\tvariant\tverdict\tmedian us\tspread\tfraction\tof"


def page(calls="2026-11-28 09:00 UTC", failed="- tests: **ops_test 1/2**: FAILED: sums are right", name="NVIDIA H200",
         commit=COMMIT, tune="passed"):  # fmt: skip
    return (f"# GPU gate\n\n{calls}\n\n{name}, driver for CUDA 13.0, runtime 13.0, a cpu, warptape 0.1.0 {commit}\n\n"
            f"## What failed\n\n{failed}\n\n| part | result | seconds |\n|---|---|---|\n| probe | passed | 3 |\n"
            f"| tests | FAILED: ops_test 1/2 | 50 |\n| tune | {tune} | 200 |\n| nccl | SKIPPED: no libnccl | 0 |\n")  # fmt: skip


def row(bench, impl, shape="1", dtype="f32", name="NVIDIA H200", commit=COMMIT, **more):
    return {"bench": bench, "impl": impl, "device": "cuda:0", "shape": shape, "dtype": dtype, "commit": commit,
            "machine": name + ", a cpu", "driver": "13.0", **more}  # fmt: skip


def tuned(bench, impl, us, ratio, bound="copy", check="right", dtype="f32", shape="8192x8192", size="real 0", **more):
    return row(bench, impl, shape, dtype, median_us=us, ratio=ratio, bound=bound, check=check, size=size, **more)


def step(impl, us, loss=2.0, bench="gpt", dtype="bf16"):
    r = row(bench, impl, "b8 t1024", dtype, median_us=us, check_loss=loss)
    if impl.startswith("torch"):
        r.update(commit=None, machine="NVIDIA H200", versions={"torch": "2.9.1", "cuda": "13.0"})
    return r


def results():
    """Rows of a run, of which something went wrong."""
    return [
        row("probe", "-", nvidia_driver="580.65.06", host="a cpu"),
        row("check", "sum:block", "7x3", check="ok", relative_error=1e-7),
        row("check", "fft:shared", "7x3", check="WRONG: relative error 0.5, allowed 1e-05"),
        row("ceiling_copy", "memcpy", "2147483648", "u8", median_us=1000.0, gb_s=4200.5),
        row("ceiling_gemm", "cublaslt", "8192x8192x8192", "bf16", median_us=1500.0, tflop_s=700.0),
        step("warptape captured", 100.0), step("torch compile", 130.0), step("torch compile", 120.0),
        step("warptape captured", 110.0),
        step("warptape eager", 50.0, loss=2.0, bench="mlp_small", dtype="f32"),
        step("torch eager", 60.0, loss=9.0, bench="mlp_small", dtype="f32"),
        tuned("softmax_forward", "naive", 900.0, 0.1), tuned("softmax_forward", "warp", 100.0, 0.9),
        tuned("softmax_forward", "block", 0, 0, check="unequal"),
        tuned("add", "vectorized", 100.0, 0.5), tuned("add", "vectorized", 9.0, 0.9, size="host 0", shape="small"),
        tuned("matmul", "tensor_core", 2000.0, 0.75, bound="gemm", dtype="bf16"),
        tuned("sum", "block", 80.0, 0.95), tuned("sum", "naive", 800.0, 0.09),
        tuned("sort", "radix", 80.0, 0.2, size="host 0", shape="64x64"),
    ]  # fmt: skip


def modelled():
    """What `wt bench model --json --all` says: of an H200 softmax 1.0, add 0.9, a product 0.7 of the peak."""
    said = [("softmax_warp<f32,4,32>", 1.0, "copy", 0), ("softmax_warp<f32,1,8>", 0.3, "issue", 0), ("add<f32>", 0.9, "issue", 0),
            ("matmul_mma<bf16,MmaShape<2,2,2>,false,false,false>", 0.7, "issue", 1)]  # fmt: skip
    return [{"bench": k, "impl": "modelled", "shape": gpu, "ratio": f * (1 if gpu == "H200" else 0.5), "bound": b,
             "of_product": p, "commit": COMMIT} for k, f, b, p in said for gpu in ("H100 SXM", "H200")]  # fmt: skip


def tune_file(*rows, device="NVIDIA H200", state="partial"):
    head = ["warptape tune 1", f"device\t{device}", "driver\t13.0", "runtime\t13.0", "warptape\t0.1.0", "date\t2026-11-28",
            "copy GB/s\t4200", f"state\t{state}", COLUMNS]  # fmt: skip
    return "\n".join([*head, *("\t".join(r) for r in rows), f"end\t{len(rows)}", ""])


def tune_row(contract, size, variant, us):
    return (contract, "f32", size, "8192x8192", "1024", variant, "right", us, "0.1", "0.9", "copy")


class Results(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.root, self.folder = os.path.join(self.dir, "root"), os.path.join(self.dir, "results")
        for folder in (self.folder, os.path.join(self.root, "bench", "sass"), os.path.join(self.root, "docs")):
            os.makedirs(folder)
        self.write("root/README.md", README)
        shutil.copy(os.path.join(ROOT, "bench", "sass", "sm_90a.txt"), os.path.join(self.root, "bench", "sass"))
        self.write("model.jsonl", lines(modelled()))
        self.put()

    def put(self, rows=None, text=None, tune=None):
        self.write("results/gpu_gate.jsonl", lines(results() if rows is None else rows))
        self.write("results/gpu_gate.md", text or page())
        self.write("results/tune.tsv", tune or tune_file(tune_row("sum", "real 0", "block", "80")))

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
            f.write(text)

    def read(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8") as f:
            return f.read()

    def rows(self, device="nvidia-h200"):
        return [json.loads(line) for line in self.read(f"bench/results/{device}/gpu_gate.jsonl").splitlines()]

    def go(self, code, *args):
        p = subprocess.run([sys.executable, "-B", SCRIPT, "--into", self.root, *args], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False, timeout=60)  # fmt: skip
        self.said = p.stdout
        self.assertEqual(p.returncode, code, p.stdout)

    def keep(self, code=0):
        self.go(code, self.folder, "--model", os.path.join(self.dir, "model.jsonl"))

    def tree(self):
        found = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    found[os.path.join(folder, name)] = f.read()
        return found

    def section(self, title):
        text = self.read("docs/gpu_results.md")
        return re.split(r"^##+ ", text.split(f"## {title}\n")[1], flags=re.M)[0]

    # --- what is written ---

    def test_what_failed_comes_first(self):
        self.keep()
        text = self.read("docs/gpu_results.md")
        titles = re.findall(r"^##+ (.*)$", text, re.M)
        self.assertEqual(titles, ["NVIDIA H200", "What failed and what was wrong", "Ceilings", "Training steps", "Kernels",
                                  "Where the model was wrong"])  # fmt: skip
        failed = self.section("What failed and what was wrong")
        for words in ("tests: **ops_test 1/2**", "**fft:shared** f32 7x3: WRONG: relative error 0.5",
                      "**softmax_forward:block** f32 8192x8192: unequal", "**mlp_small:f32**: losses",
                      "not to the end: nccl"):  # fmt: skip
            self.assertIn(words, failed)
        self.assertNotIn("sum:block", failed)
        self.assertIn("| 2026-11-28 09:00 UTC | 580.65.06, CUDA 13.0 | a cpu | " + COMMIT + " | 20 | probe: passed; tests: FAILED",
                      text)  # fmt: skip

    def test_ceilings_and_steps(self):
        self.keep()
        self.assertIn("| copy | memcpy | 2147483648 | u8 | 1000 | 4200.5 GB/s |", self.section("Ceilings"))
        self.assertIn("| 700.0 TFLOP/s |", self.section("Ceilings"))
        self.assertIn("the model takes 4,301 GB/s on an H200", self.section("Ceilings"))
        steps = self.section("Training steps")
        # Theirs 125 over ours 105; the worst pair 120 over 110.
        self.assertIn("gpt bf16: warptape captured beside PyTorch's fastest, torch compile: 1.19, 1.09 in the worst pair", steps)
        self.assertIn("void: the losses disagree", steps)
        self.assertNotIn("- mlp_small", steps)
        self.assertIn("PyTorch 2.9.1", steps)

    def test_kernels_beside_the_model(self):
        self.keep()
        kernels = self.section("Kernels")
        self.assertIn("| softmax_forward | 8192x8192 | f32 | warp | 100.00 | 90 % copy | 100 % | 0.90 |", kernels)
        self.assertIn("| add | 8192x8192 | f32 | vectorized | 100.00 | 50 % copy | 90 % | 0.56 |", kernels)
        # 0.75 of 700 TFLOP/s is 0.53 of the peak of 989.
        self.assertIn("| matmul | 8192x8192 | bf16 | tensor_core | 2000 | 75 % gemm | 70 % | 0.76 |", kernels)
        self.assertIn("| sum | 8192x8192 | f32 | block | 80.00 | 95 % copy | no prediction | - |", kernels)
        self.assertIn("| sort | 64x64 (not the full size) |", kernels)
        self.assertNotIn("naive", kernels)
        self.assertNotIn("9.00", kernels)  # the small size of add
        order = re.findall(r"^\| (\w+) \| [68]", kernels, re.M)
        self.assertEqual(order, ["sort", "add", "matmul", "softmax_forward", "sum"])
        wrong = self.section("Where the model was wrong")
        self.assertIn("Of 3 rows with a prediction 2 are off by more than 1.3", wrong)
        self.assertIn("| add | vectorized | f32 | 8192x8192 | add<f32> | 50 % | 90 % issue | 0.56 |", wrong)
        self.assertIn("| 53 % | 70 % issue | 0.76 |", wrong)
        self.assertLess(wrong.index("| add |"), wrong.index("| matmul |"))
        self.assertNotIn("softmax", wrong)
        self.assertIn("(2 rows):\nsort:radix sum:block", wrong)

    def test_readme(self):
        self.keep()
        text = self.read("README.md")
        self.assertTrue(text.startswith("# warptape\n\nBefore.\n\n<!-- gpu: written by tools/gpu_results.py -->\n**`cuda` on an NVIDIA H200**"))
        self.assertTrue(text.endswith("\n<!-- end of gpu -->\n\nBehind.\n"))
        flat = " ".join(text.split())
        for words in ("2026-11-28, driver 580.65.06, commit " + COMMIT, "1 of 2 contracts agree with the cpu", "gpt bf16 1.09",
                      "wrong or failed: fft:shared, softmax_forward:block, the losses of mlp_small:f32, tests: ops_test 1/2",
                      "docs/gpu_results.md"):  # fmt: skip
            self.assertIn(words, flat)
        self.assertNotIn("old", flat)
        self.assertLessEqual(max(map(len, text.splitlines())), 120)

    def test_without_results(self):
        self.go(1, "--check")
        self.go(0, "--write")
        self.assertIn("**Nothing of `cuda` has run on a GPU yet.** What stands in for one", self.read("README.md"))
        self.assertFalse(os.path.exists(os.path.join(self.root, "docs", "gpu_results.md")))
        self.go(0, "--check")

    def test_check_finds_what_was_changed_by_hand(self):
        self.keep()
        self.go(0, "--check")
        for name, old, new in (("docs/gpu_results.md", "4200.5", "9999.9"), ("README.md", "gpt bf16 1.09", "gpt bf16 2.09"),
                               ("bench/results/nvidia-h200/gpu_gate.jsonl", "4200.5", "4000.5")):  # fmt: skip
            text = self.read(name)
            self.assertIn(old, text)
            self.write(os.path.join("root", name), text.replace(old, new))
            self.go(1, "--check")
            self.assertIn("gpu_results.py --write", self.said)
            self.write(os.path.join("root", name), text)
        os.remove(os.path.join(self.root, "docs/gpu_results.md"))
        self.go(1, "--check")
        self.go(0, "--write")
        self.go(0, "--check")

    # --- further runs ---

    def test_a_second_call_in_the_same_folder(self):
        self.keep()
        self.keep()  # nothing twice
        self.assertEqual(len(self.rows()), 20)
        self.put(results() + [row("nccl_all_reduce", "nccl", median_us=5.0)],
                 page("2026-11-28 09:00 UTC, 2026-11-28 10:00 UTC", failed="Nothing so far."))  # fmt: skip
        self.keep()
        self.assertEqual(len(self.rows()), 21)
        self.assertEqual(sorted(os.listdir(os.path.join(self.root, "bench/results/nvidia-h200"))),
                         ["gpu_gate.jsonl", "gpu_gate.md", "model.jsonl", "tune.tsv"])  # fmt: skip
        self.assertNotIn("ops_test", self.section("What failed and what was wrong"))

    def test_a_later_run_replaces_what_it_measured_again(self):
        self.keep()
        later = [row("probe", "-", nvidia_driver="590.1", commit="abcdef012345"), step("warptape captured", 80.0),
                 tuned("softmax_forward", "block", 90.0, 0.99, commit="abcdef012345")]  # fmt: skip
        self.put(later, page("2026-12-24 09:00 UTC", "Nothing so far.", commit="abcdef012345"),
                 tune_file(tune_row("sum", "real 0", "naive", "70"), tune_row("sum", "real 1", "block", "9")))  # fmt: skip
        self.keep()
        text = self.read("docs/gpu_results.md")
        self.assertNotIn("torch compile", text)  # a pair is of one run
        self.assertIn("torch eager", text)
        self.assertNotIn("softmax_forward:block", self.section("What failed and what was wrong"))
        self.assertIn("| softmax_forward | 8192x8192 | f32 | block | 90.00 | 99 % copy |", text)
        self.assertIn("- 2026-11-28 09:00 UTC: tests: **ops_test 1/2**", text)
        self.assertLess(text.index("| 2026-12-24"), text.index("| 2026-11-28"))
        self.assertIn("gpu_gate-2026-11-28-0900.md", os.listdir(os.path.join(self.root, "bench/results/nvidia-h200")))
        tune = self.read("bench/results/nvidia-h200/tune.tsv")
        self.assertEqual(re.findall(r"^sum.*?\t(real \d).*\t(\w+)\tright", tune, re.M), [("real 0", "naive"), ("real 1", "block")])
        self.assertTrue(tune.endswith("\nend\t2\n"))

    def test_two_devices(self):
        self.keep()
        name = "NVIDIA H100 80GB HBM3"
        self.put([row("probe", "-", name=name), tuned("add", "vectorized", 100.0, 0.5, name=name)], page(name=name),
                 tune_file(tune_row("add", "real 0", "vectorized", "80"), device=name))  # fmt: skip
        self.keep()
        self.assertEqual(len(self.rows("nvidia-h100-80gb-hbm3")), 2)
        self.assertEqual(re.findall(r"^## (.*)$", self.read("docs/gpu_results.md"), re.M), [name, "NVIDIA H200"])
        # What is predicted is of the GPU: 0.45 here.
        self.assertIn("| 50 % copy | 45 % | 1.11 |", self.read("docs/gpu_results.md"))
        self.assertEqual(self.read("README.md").count("**`cuda` on an "), 2)

    def test_a_gpu_that_nothing_is_predicted_of(self):
        name = "NVIDIA RTX 5090"
        self.put([row("probe", "-", name=name), tuned("add", "vectorized", 100.0, 0.5, name=name)], page(name=name),
                 tune_file(device=name))  # fmt: skip
        self.keep()
        self.assertIn("`wt bench model` has no NVIDIA RTX 5090", self.read("docs/gpu_results.md"))

    def test_a_run_that_was_cut(self):
        self.put([row("probe", "-")], page(tune="left, 3 done"))
        with open(os.path.join(self.folder, "gpu_gate.jsonl"), "a", encoding="utf-8") as f:
            f.write('{"bench":"add","impl":"vec')
        os.remove(os.path.join(self.folder, "tune.tsv"))
        self.keep()
        self.assertEqual(len(self.rows()), 1)
        self.assertIn("Not run, or not to the end: tune, nccl.", self.read("docs/gpu_results.md"))
        self.go(0, "--check")

    # --- refusals ---

    def refused(self, code, words):
        before = self.tree()
        self.keep(code)
        self.assertIn(words, self.said)
        self.assertNotIn("Traceback", self.said)
        self.assertEqual(self.tree(), before)

    def test_what_is_incomplete_is_refused(self):
        self.put([])
        self.refused(3, "no row of the probe")
        self.put(text="# GPU gate\n\nSKIPPED: no driver\n", rows=[])
        self.refused(3, "Its page says: SKIPPED: no driver")
        self.put(tune=tune_file()[:-3])
        self.refused(3, "is no whole tune file")
        self.put(tune=tune_file().replace("end\t0", "end\t1"))
        self.refused(3, "is damaged")
        self.put(text="# GPU gate\n")
        self.refused(3, "does not say when it ran")
        self.put()
        os.remove(os.path.join(self.folder, "gpu_gate.md"))
        self.refused(3, "no gpu_gate.md")
        shutil.rmtree(self.folder)
        self.refused(3, "is no folder")

    def test_what_nobody_measured_is_refused(self):
        emulated = "NVIDIA H200 (emulated)"
        self.put([row("probe", "-", name=emulated)], page(name=emulated), tune_file(device=emulated))
        self.refused(2, "emulated device")
        self.put(text=page().replace("## What", "**Emulated: a rehearsal.**\n\n## What", 1))
        self.refused(2, "emulated device")
        self.put()
        self.write("results/gpu_gate_state.jsonl", '{"device": "x", "emulated": true}\n')
        self.refused(2, "emulated device")
        os.remove(os.path.join(self.folder, "gpu_gate_state.jsonl"))
        self.put([row("probe", "-", name="simt") | {"device": "simt"}])
        self.refused(2, "is of the device simt")
        self.put([row("probe", "-"), row("ceiling_copy", "memcpy", "1048576", "u8", gb_s=1.0)])
        self.refused(2, "--scale small")

    def test_what_is_not_of_one_device_and_a_commit_is_refused(self):
        self.put([row("probe", "-"), row("add", "vectorized", name="NVIDIA H100 80GB HBM3")])
        self.refused(2, "rows of two devices")
        self.put(tune=tune_file(device="NVIDIA H100 80GB HBM3"))
        self.refused(2, "tune.tsv is of NVIDIA H100")
        for commit in (None, "", "unknown", COMMIT + "-dirty"):
            self.put([row("probe", "-"), row("add", "vectorized", commit=commit)])
            self.refused(2, "no clean commit")

    def test_a_failure_leaves_everything_as_it_was(self):
        self.write("root/README.md", "no place\n")
        self.refused(2, "has no place for the paragraph")
        self.write("root/README.md", README)
        self.keep()
        self.put(text=page("2026-12-24 09:00 UTC"))
        os.mkdir(os.path.join(self.root, "docs", "gpu_results.md.new"))  # the last of the files cannot be written
        before = self.tree()
        self.go(1, self.folder, "--model", os.path.join(self.dir, "model.jsonl"))
        self.assertEqual(self.tree(), before)

    # --- the model's names ---

    def test_every_kernel_that_is_named_is_in_the_table(self):
        widths = prediction.load_widths(self.read("bench/sass/sm_90a.txt"))
        kernels = {k: (w, 1.0) for k, w in widths.items()}
        dtypes = ("f32", "f16", "bf16", "f64", "i32", "u8")

        def known(contract, variant):
            return any(prediction.kernel_of(contract, variant, t, kernels) for t in dtypes)

        pairs = list(prediction.KERNELS) + [(c, v) for c in prediction.ROWS for v in ("warp", "block")]
        for stem in prediction.STEMS:
            variants = ("columns", "planes") if stem.startswith("channel") else ("vectorized",)
            pairs += [(stem, v) for v in variants]
        for pair in pairs:
            self.assertTrue(known(*pair), pair)
        for pair in (("gelu_tanh_backward", "vectorized"), ("adamw_step", "vectorized"), ("max_pool_forward", "compact")):
            self.assertTrue(known(*pair), pair)
        for pair in (("sum", "block"), ("attention_backward", "tensor_core"), ("matmul", "vendor"), ("conv_forward", "cudnn")):
            self.assertFalse(known(*pair), pair)


def lines(rows):
    return "".join(json.dumps(r) + "\n" for r in rows)


if __name__ == "__main__":
    unittest.main()
