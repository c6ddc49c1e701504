#!/usr/bin/env python3
"""tools/benchmarks.py: the committed page is what bench/results gives; over small files that nobody
measured: what each format says, that what is not known is named, that a wrong page is found."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRIPT = os.path.join(ROOT, "tools", "benchmarks.py")
sys.path += [os.path.join(ROOT, "tools", "results"), os.path.join(ROOT, "bench", "peers")]
import generate  # noqa: E402
import gpu_steps  # noqa: E402
import model_steps  # noqa: E402
from benchmarks_page import result  # noqa: E402
from result_file import Unreadable  # noqa: E402

GATE = """\
machine: Acme Chip, 2 cores; commit 1234567
load average 1.49 (0.3 or more: others are running, figures are provisional)
{"bench":"mlp_tiny","impl":"warptape","median_us":2.0}

mlp_tiny, 1 thread, us (median of two runs, minimum)
  ours: warptape                           2.000        1.9
  torch eager                              100.0       99.0      50.00x  (pairs 45.00 .. 55.00)
  torch fused nhwc                         90.00       89.0      45.00x  (pairs 44.00 .. 46.00)
  jax jit                                  8.000        7.9       4.00x  (pairs 3.90 .. 4.10)

gates: best mode of the peer / ours
  G5a tape_add    1 thread  >=   35x torch              SKIPPED: not asked for
  G5b mlp_tiny    1 thread  >=   40x torch                 45.00x torch fused nhwc worst pair 44.00x  passed
  G5b mlp_tiny    1 thread  >=    5x jax                    4.00x jax jit      worst pair 3.90x  BELOW
"""
OPERATORS = """\
bench/peers/operators.py, commit a199dbb

1 thread; PyTorch 2.15.0; minima of 2 x 4 calls in us; load average 0.1

operator            shape                                           dtype                 ours    PyTorch  ratio
conv2d              64x3x32x32 64x3x3x3 stride 1 padding 1          f32   forward         1000       2000   0.50
conv2d              64x3x32x32 64x3x3x3 stride 1 padding 1          f32   gradients       1000       4000   0.25
cdist               300x64 300x64 p 3                               f32   forward         1600       1000   1.60
"""
KERNELS = """\
kernel                       variant      shape                        min us  median us  rate, fraction of the ceiling
step_advance                 reference    1                               3.8        4.6     0.05 GB/s
bit_pack                     reference    16777216                    11989.7    12238.2     5.77 GB/s      0.22 of copy (median 0.22)
---- 0.7 of the ceiling and more ----
matmul                       blas         1024x1024x1024 nn           22291.2    22863.4     96.3 GFLOP/s   0.99 of gemm (median 0.96)

1 of 3 rows are below 0.7 of their ceiling
not measured, no row in bench/gpu: gather
"""
MODELLED = """\
# modelled, not measured: wt bench model --before TABLE

kernel                                          H100 SXM before  bound by now          H200 before  bound by now
conv_mma<bf16,false>                              0.18 x      -  alu                 0.18 x      -  alu
where<f32>                                        1.00     0.90  copy                1.00     1.00  copy

2 rows: 1 new, 1 better and 0 worse by more than 0.01 on H200 (modelled)
"""
SOAK = """\
# Written by tools/soak.sh: what a long run holds.
commit 28e2dfa64593009112724fef56c8fb3f6446df3b
date 2026-11-22
gpt step 1000: live 300 bytes in 45 tensors, reserved 4000, requests a step 78.27, RSS 100 KiB, 9 files, 5 threads
gpt step 2000: live 310 bytes in 45 tensors, reserved 4000, requests a step 78.27, RSS 120 KiB, 9 files, 5 threads
"""


def step(model, impl, us, peak, loss=2.0, **more):
    return {"bench": model, "impl": impl, "device": "cpu", "shape": "b8", "dtype": "f32", "median_us": us,
            "peak_bytes": peak and peak * 2**20, "check_loss": loss, **more}  # fmt: skip


def steps():
    """resnet18_cifar reaches its goals; mobilenet_v2's worst pair is 0.9; gpt2_block takes more memory; pointnet is void."""
    of = {"resnet18_cifar": (130.0, 130.0, 70, 2.0), "mobilenet_v2": (90.0, 200.0, 100, 2.0),
          "gpt2_block": (120.0, 120.0, 90, 2.0), "pointnet": (500.0, 500.0, 50, 9.0)}  # fmt: skip
    rows = []
    for model, (first, second, peak, loss) in of.items():
        rows += [step(model, "warptape eager", 100.0, peak), step(model, "torch eager", first, 100, loss),
                 step(model, "torch eager", second, None, loss), step(model, "torch compile", 900.0, 120, loss),
                 step(model, "warptape eager", 100.0, peak)]  # fmt: skip
    return rows


class Benchmarks(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def put(self, name, text):
        path = os.path.join(self.root, "bench", "results", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb" if isinstance(text, bytes) else "w") as f:
            f.write(text)
        return path

    def said(self, name, text):
        return result(name, self.put(name, text))

    def refused(self, name, text):
        with self.assertRaises(Unreadable) as got:
            self.said(name, text)
        return str(got.exception)

    def run_it(self, *args, root=None):
        return subprocess.run([sys.executable, "-B", SCRIPT, *args, "--into", root or self.root], capture_output=True,
                              text=True, check=False)  # fmt: skip

    @property
    def page(self):
        with open(os.path.join(self.root, "docs", "benchmarks.md")) as f:
            return f.read()

    # --- the page ---

    def test_the_committed_page_is_what_bench_results_gives(self):
        got = self.run_it("--check", root=ROOT)
        self.assertEqual((got.returncode, got.stdout, got.stderr), (0, "", ""))

    def test_a_page_that_is_wrong_or_missing_is_found_with_the_command(self):
        self.put("acme-chip-2-cores/2026-11-21-gate.txt", GATE)
        for spoil in (None, "behind\n"):
            if spoil:
                self.assertEqual(self.run_it("--write").returncode, 0)
                self.assertEqual(self.run_it("--check").returncode, 0)
                with open(os.path.join(self.root, "docs", "benchmarks.md"), "a") as f:
                    f.write(spoil)
            got = self.run_it("--check")
            self.assertEqual(got.returncode, 1)
            self.assertIn("tools/benchmarks.py --write", got.stdout)

    def test_every_file_that_no_format_fits_is_named_and_nothing_written(self):
        self.put("acme-chip-2-cores/2026-11-21-gate.txt", GATE)
        self.assertEqual(self.run_it("--write").returncode, 0)
        before = self.page
        self.put("acme-chip-2-cores/new.txt", "something fast: 3 us\n")
        self.put("picture.png", b"\x89PNG\xff")
        got = self.run_it("--write")
        self.assertEqual(got.returncode, 2)
        self.assertIn("bench/results/acme-chip-2-cores/new.txt: a format", got.stderr)
        self.assertIn("bench/results/picture.png: not a text", got.stderr)
        self.assertEqual(self.page, before)
        self.assertEqual(os.listdir(os.path.join(self.root, "docs")), ["benchmarks.md"])

    def test_files_stand_under_their_machine_and_what_is_modelled_by_itself_at_the_end(self):
        self.put("acme-chip-2-cores/2026-11-21-gate.txt", GATE)
        self.put("modelled/2026-11-24-kernels.txt", MODELLED)
        self.put("soak.txt", SOAK)
        self.assertEqual(self.run_it("--write").returncode, 0)
        heads = [line for line in self.page.splitlines() if line.startswith("## ")]
        self.assertEqual(heads, ["## All files", "## Acme Chip, 2 cores", "## Counts, on any machine",
                                 "## Modelled, not measured"])  # fmt: skip
        self.assertNotIn("Whole training steps", self.page)
        modelled = self.page.split("## Modelled")[1]
        self.assertIn("| H200 | 2 | 0.59 | 1 of 2 |", modelled)
        self.assertIn("No figure of this section was measured", modelled)
        self.assertIn("| Modelled | [2026-11-24-kernels.txt](../bench/results/modelled/2026-11-24-kernels.txt) |", self.page)

    # --- formats ---

    def test_a_gate_has_the_fastest_mode_of_each_peer_and_its_goals(self):
        got = self.said("m/2026-11-21-gate.txt", GATE)
        self.assertEqual((got.subject, got.rows, got.goals), ("overhead", 1, [True, False]))
        self.assertIn("| mlp_tiny | 1 | 45.00 (44.00) | - | 4.00 (3.90) | "
                      "G5b, 40 of PyTorch: reached; G5b, 5 of JAX: not reached |", got.says[0])  # fmt: skip
        self.assertEqual(got.commands, ["bench/peers/gate.py build/release/wt --threads 1 --bench mlp_tiny"])
        self.assertEqual((got.file.commit, got.file.load, got.file.date), ("1234567", "1.5", "2026-11-21"))
        self.assertIn("Provisional", got.note)

    def test_a_void_gate_is_no_result(self):
        self.assertIn("m/g.txt: the run is void", self.refused("m/g.txt", GATE + "VOID: not the same work: mlp_tiny\n"))

    def test_a_line_that_does_not_fit_its_format_is_named(self):
        self.assertIn("bench/results/m/g.txt:7: no row of bench/peers/gate.py",
                      self.refused("m/g.txt", GATE.replace("(pairs 45.00 .. 55.00)", "")))  # fmt: skip
        self.assertIn("m/o.txt:6: no row of bench/peers/operators.py",
                      self.refused("m/o.txt", OPERATORS.replace("2000   0.50", "2000   fast")))  # fmt: skip
        self.assertIn("m/k.txt:3: no row of wt bench kernels", self.refused("m/k.txt", KERNELS.replace("5.77 GB/s", "5.77")))
        self.assertIn("2 rows of kernels, 3 said", self.refused("m/k.txt", KERNELS.replace(KERNELS.splitlines()[1] + "\n", "")))
        self.assertIn("1 rows of wt bench model, 2 said",
                      self.refused("modelled/m.txt", MODELLED.replace("where<f32>", "    where<f32>")))  # fmt: skip

    def test_operators_are_turned_round_and_those_above_the_goal_counted(self):
        got = self.said("m/o.txt", OPERATORS)
        self.assertEqual((got.rows, got.goals), (3, [False]))
        self.assertIn("0.62 at worst, 2.00 in the median, 4.00 at best", got.says[0])
        self.assertIn("1 are: not reached", got.says[0])
        self.assertIn("| conv2d | 2 | 2.00 | 3.00 | 4.00 |", got.says[1])

    def test_kernels_stand_beside_their_ceiling_and_what_was_not_measured_stays_out(self):
        got = self.said("m/k.txt", KERNELS)
        self.assertEqual(got.rows, 3)
        self.assertIn("| copy | 1 | 0.22 | 0.22 | 0.22 | 0 of 1 |", got.says[0])
        self.assertIn("| gemm | 1 | 0.99 | 0.99 | 0.99 | 1 of 1 |", got.says[0])
        self.assertNotIn("gather", "".join(got.says))

    def test_memory_that_grows_is_seen(self):
        got = self.said("soak.txt", SOAK)
        self.assertEqual(got.subject, "memory")
        self.assertIn("| gpt | 2000 | 300 to 310 | 4000 | 100 and 120 |", got.says[0])

    def test_steps_on_simt_are_held_against_an_earlier_commit(self):
        text = """wt train RECIPE --device simt, 2026-12-01

| recipe | commit | items a second | of its median | seconds in all |
|---|---|---|---|---|
| fashion | 12345678 | 10.0 | 1.00 | 30.0 |
| fashion | 87654321 | 25.0 | 2.50 | 12.0 |
"""
        got = self.said("m/2026-12-01-simt.md", text)
        self.assertIn("| fashion | 2.50 | 30.0 | 12.0 | 3: not reached; below 10 s: not reached |", got.says[0])
        self.assertIn("m/k.md:6: no row of simt's steps", self.refused("m/k.md", text.replace("| 2.50", "| fast")))

    def test_whole_steps_are_held_against_their_goals(self):
        printed = f"On 2 cores.\n\n## 1 thread; load average 0.10 before\n\n{gpu_steps.table(steps())}\n\n"
        rows = "".join(json.dumps({**r, "threads": 1}) + "\n" for r in steps())
        for name, text in (("2026-12-01-steps.md", printed), ("2026-12-01-steps.jsonl", rows)):
            got = self.said(f"m/{name}", text)
            self.assertEqual(got.subject, "steps")
            self.assertIn("| resnet18_cifar | f32 | 1 | 1.30 (torch eager) | 1.30 | 1.2: reached | 0.70 | "
                          "at most 0.8: reached |", got.says[0])  # fmt: skip
            self.assertIn("| mobilenet_v2 | f32 | 1 | 1.45 (torch eager) | 0.90 | 1.3: not reached | 1.00 | "
                          "at most 0.8: not reached |", got.says[0])  # fmt: skip
            self.assertIn("| gpt2_block | f32 | 1 | 1.20 (torch eager) | 1.20 | 1.1: reached | 0.90 | "
                          "at most 0.8: not reached |", got.says[0])  # fmt: skip
            self.assertIn("| pointnet | f32 | 1 | void: the losses disagree | - | - | - | - |", got.says[0])
            self.assertEqual(sorted(got.goals), [False] * 3 + [True] * 3)

    def test_rows_of_model_steps_say_their_threads_on_both_sides(self):
        wt = os.path.join(self.root, "wt")
        with open(wt, "w") as f:
            f.write(f"#!/bin/sh\necho '{json.dumps(step('pointnet', 'warptape eager', 1.0, 1))}'\n")
        os.chmod(wt, 0o755)
        args = argparse.Namespace(wt=wt, precision="f32", seconds=1, windows=1)
        self.assertEqual([r["threads"] for r in model_steps.ours(args, "pointnet", 0, 0, 1)], [1])

    def test_steps_that_do_not_say_their_threads_or_have_other_lines_are_refused(self):
        rows = "".join(json.dumps(r) + "\n" for r in steps())
        self.assertIn("does not say its threads", self.refused("m/s.jsonl", rows))
        text = f"## 2 threads; load average 0.10 before\n\n{gpu_steps.table(steps())}\nand more\n"
        self.assertIn("no line of model_steps.py: and more", self.refused("m/s.md", text))

    def test_text_token_by_token_is_held_against_its_goal(self):
        def row(impl, dtype, us, tokens="1 2"):
            return {"bench": "gpt2", "impl": impl, "dtype": dtype, "median_us": us, "min_us": us / 2, "prompt_us": 9e4,
                    "new_tokens": tokens}  # fmt: skip

        rows = [row("warptape", "f32", 5e4), row("transformers eager", "f32", 6e4),
                row("transformers compile", "f32", 4e4, "1 3"), row("warptape", "bf16", 2e4),
                row("transformers eager", "bf16", 3.2e4)]  # fmt: skip
        text, void = generate.table(rows, 1)
        self.assertEqual(void, ["f32 transformers compile"])
        got = self.said("m/g.md", f"On 2 cores.\n\n## 2 threads; load average 0.10 before\n\n{text}\n\n")
        self.assertEqual((got.subject, got.rows, got.goals), ("generation", 5, [False, True]))
        self.assertIn("| gpt2 | f32 | 2 | 20.00 | 1.20 (transformers eager) | 1.20 | 1.5: not reached |", got.says[0])
        self.assertIn("| gpt2 | bf16 | 2 | 50.00 | 1.60 (transformers eager) | 1.60 | 1.5: reached |", got.says[0])
        self.assertIn("no comparison", self.refused("m/h.md", "## 1 thread; load average 0.10 before\n\n"
                                                    + "| model | precision | who | tokens/s |\n"))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
