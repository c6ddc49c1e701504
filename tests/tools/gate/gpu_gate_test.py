#!/usr/bin/env python3
"""tools/gpu_gate.sh over stand-ins for its programs, with a clock that is moved: what it runs, in what
order and for how long, what it does about parts that fail, hang or die, and that a call that is cut
anywhere loses nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
STAND_IN = os.path.join(HERE, "gpu_gate_stand_in.py")
CONTRACTS = ["matmul", "softmax_forward", "sum", "adam_step"]
PARTS = ["probe", "check", "tests", "ceilings", "steps", "tune", "nccl", "memcheck", "initcheck",
         "racecheck", "synccheck", "ncu"]  # fmt: skip


class Gate(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        for folder in ("build", "bin"):
            os.mkdir(self.path(folder))
        for name in ("build/wt_gpu", "bin/compute-sanitizer", "bin/ncu"):
            with open(STAND_IN, encoding="utf-8") as f:
                self.write(name, f"#!{sys.executable} -SE\n" + f.read())
        real = sys.executable
        with open(self.path("bin/python3"), "w", encoding="ascii") as f:
            f.write(f'#!/bin/sh\ncase "$*" in *gpu_steps.py*) exec {real} -SE {STAND_IN} "$@" ;; esac\nexec {real} "$@"\n')
        for name in ("build/wt_gpu", "bin/compute-sanitizer", "bin/ncu", "bin/python3"):
            os.chmod(self.path(name), 0o755)
        self.write("build/gpu_tests.txt", "ops_test 1/2\nops_test 2/2\ncuda_gpu_test 1/1\n")
        self.write("clock", "0")
        self.plan()

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def plan(self, **more):
        self.write("plan.json", json.dumps({"contracts": CONTRACTS, "torch": "there", **more}))

    def gate(self, *args, seconds=540, steps="gpt:bf16,mlp_small:f32,fashion:f32"):
        env = {**os.environ, "PATH": self.path("bin") + ":" + os.environ["PATH"], "STAND_IN": self.dir,
               "WT_GATE_CLOCK": self.path("clock"), "WT_GATE_SECONDS": str(seconds),
               "WT_BUILD_DIR": self.path("build")}  # fmt: skip
        # A shell that becomes the gate, so that what it runs knows whom to kill.
        p = subprocess.run(
            ["bash", "-c", 'GATE_PID=$$ exec "$@"', "gate", os.path.join(ROOT, "tools/gpu_gate.sh"),
             self.path("out"), "--steps", steps, *args],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
        )  # fmt: skip
        self.said = p.stdout
        return p.returncode

    def wait_for_what_was_left(self):
        """Until the program that a cut gate was running has written its last row."""
        path = f"/proc/{self.read('left')}/stat"
        for _ in range(1200):
            try:
                with open(path, encoding="utf-8") as f:
                    if f.read().rpartition(")")[2].split()[0] == "Z":
                        return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.05)
        self.fail("what a cut gate left goes on for a minute")

    def page(self):
        return self.read("out/gpu_gate.md")

    def rows(self, **wanted):
        rows = [json.loads(line) for line in self.read("out/gpu_gate.jsonl").splitlines() if line.endswith("}")]
        return [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]

    def calls(self, begin=""):
        return [c for c in self.read("calls").splitlines() if c.startswith(begin)]

    def expect(self, code, *args, **how):
        self.assertEqual(self.gate(*args, **how), code, self.said + self.page())

    # --- what it does when all is well ---

    def test_all_well(self):
        self.expect(0, steps="")
        self.assertIn("GPU gate passed", self.said)
        order = [line[4:].split()[0] for line in self.said.splitlines() if line.startswith("--- ")]
        self.assertEqual(order, PARTS)
        for part in PARTS:
            self.assertIn(f"| {part} | passed", self.page())
        self.assertIn("Nothing so far", self.page())
        self.assertEqual(len(self.rows(bench="check")), 4)
        self.assertIn("tests:cuda_gpu_test devices cpu,cuda shard 1/1", self.calls())
        self.assertIn("tests:ops_test devices cpu,cuda shard 2/2", self.calls())
        self.assertIn("tests:gpu_fatal devices cpu,cuda shard 1/1", self.calls())
        turns = [c.split(":")[0] for c in self.calls() if c in ("step:gpt", "torch:gpt")][:12]
        self.assertEqual(turns, ["step"] * 2 + ["torch"] * 8 + ["step"] * 2)
        self.assertLessEqual(len(os.listdir(self.path("out"))), 8)
        self.assertIn('"softmax"', self.read("out/ncu.csv"))
        self.assertEqual(self.calls("ncu:")[0], "ncu:adam_step")  # the farthest from its prediction

    def test_nothing_left_is_not_measured_again(self):
        one = {"steps": "gpt:bf16"}
        self.expect(0, **one)
        before = len(self.calls())
        self.expect(0, **one)
        self.assertEqual(len(self.calls()), before)
        self.expect(0, "ceilings", **one)
        self.assertEqual(len(self.calls("ceilings:")), 6)
        self.assertEqual(len(self.rows(bench="ceiling_copy")), 1)
        self.assertIn("ceiling_copy", self.read("out/gpu_gate_before.jsonl"))
        self.expect(0, "--fresh", **one)
        self.assertEqual(len(self.rows(bench="check")), 4)

    def test_several_calls(self):
        """Each part has its share; the next call goes on with what is left, inside of parts too."""
        many = [f"contract{i}" for i in range(30)]
        slow = {"check": 5, "step": 2, "torch": 2, "tune": 10, "nccl": 5, "checker": 5}
        self.plan(contracts=many, seconds=slow)
        self.expect(3)
        self.assertIn("call again with", self.said)
        begun = [line[4:].split()[0] for line in self.said.splitlines() if line.startswith("--- ")]
        self.assertEqual(begun[:6], PARTS[:6])
        self.assertIn("| check | left", self.page())
        self.assertGreaterEqual(len(self.calls("tune:")), 15)
        for _ in range(6):
            code = self.gate()
            if code != 3:
                break
        self.assertEqual(code, 0, self.said)
        for contract in many:
            self.assertEqual(self.calls().count(f"check:{contract}"), 1)
            self.assertEqual(self.calls().count(f"tune:{contract}"), 1)

    def test_a_short_call_begins_every_measuring_part(self):
        self.plan(contracts=[f"contract{i}" for i in range(30)],
                  seconds={"check": 4, "step": 1, "torch": 1, "tune": 10})  # fmt: skip
        self.expect(3, seconds=120)
        for part in ("check", "ceilings", "step", "tune"):
            self.assertTrue(self.calls(part + ":"), part)

    # --- no GPU, another GPU, wrong words ---

    def test_no_gpu(self):
        self.plan(probe="none")
        self.expect(0)
        self.assertIn("SKIPPED: no driver", self.page())
        self.plan(probe="bad")
        self.expect(1)
        self.assertIn("FAILED: probe: exit code 6: unknown error", self.page())

    def test_another_device_is_refused(self):
        self.expect(3, "ceilings")
        self.plan(probe="NVIDIA Stand-in H200, driver for CUDA 13.1, another cpu, warptape 0.1.0 abc")
        self.expect(3, "ceilings")
        page = self.page()
        self.plan(probe="NVIDIA Stand-in H200, driver for CUDA 13.0, runtime 13.0, a cpu, warptape 0.1.0 abd")
        self.expect(2)
        self.plan(probe="NVIDIA Other, driver for CUDA 13.0, runtime 13.0, a cpu, warptape 0.1.0 abc")
        self.expect(2)
        self.assertIn("results of another device", self.said)
        self.assertEqual(self.page(), page)

    def test_command_line(self):
        self.expect(2, "nonsense")
        self.assertIn("probe check tests ceilings steps", self.said)
        os.remove(self.path("build/wt_gpu"))
        self.expect(2)
        self.assertIn("wt_gpu is not there", self.said)

    def test_no_torch_no_checkers(self):
        self.plan(torch="none")
        os.remove(self.path("bin/compute-sanitizer"))
        os.remove(self.path("bin/ncu"))
        # Those of the machine's own toolkit, if it has one, must not be found.
        os.environ["PATH"], old = "/usr/bin:/bin", os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", old)
        self.expect(0, steps="gpt:bf16")
        self.assertIn("python3 has no torch", self.page())
        self.assertIn("| memcheck | SKIPPED: no compute-sanitizer", self.page())
        self.assertTrue(self.rows(bench="gpt"))

    # --- faults ---

    def fault(self, kind, *parts, part="check", name="softmax_forward", **how):
        """In a call of these parts alone: the others are what test_all_well is about."""
        self.plan(fault={f"{part}:{name}": kind})
        self.expect(1, *parts, **how)

    def test_a_contract_that_ends_or_hangs_its_process(self):
        for kind, why in (("crash", "exit code 6: [device] an illegal memory access"), ("hang", "hung"),
                          ("signal", "ended by SIGSEGV"),
                          ("fail", "exit code 1: InternalError: planted")):  # fmt: skip
            with self.subTest(kind):
                self.setUp()
                self.fault(kind, "check", "tune")
                self.assertIn("GPU gate FAILED: check", self.said)
                self.assertIn("- check: **softmax_forward**: " + why, self.page())
                # The walk went on behind it, and the other parts ran.
                self.assertEqual([r["impl"] for r in self.rows(bench="check")],
                                 ["matmul:best", "sum:best", "adam_step:best"])  # fmt: skip
                self.assertIn("| tune | passed", self.page())

    def test_wrong_values_and_no_memory(self):
        for kind, why in (("nan", "WRONG: softmax_forward"), ("memory", "OUT OF MEMORY: softmax_forward")):
            with self.subTest(kind):
                self.setUp()
                self.fault(kind, "check")
                self.assertIn(f"- check: **softmax_forward**: {why}", self.page())
                self.assertEqual(len(self.rows(bench="check")), 4)

    def test_wrong_values_of_a_walk_that_is_cut_short(self):
        many = [f"contract{i}" for i in range(30)]
        self.plan(contracts=many, seconds={"check": 5}, fault={"check:contract2": "nan"})
        self.expect(1, "check", seconds=60)
        self.assertIn("| check | left", self.page())
        self.assertIn("- check: **contract2**: WRONG", self.page())
        while "| check | left" in self.page():
            self.gate("check", seconds=60)
        self.assertEqual(len(self.rows(bench="check")), 30)
        self.assertIn("GPU gate FAILED: check (", self.said)

    def test_steps(self):
        for kind, why in (("crash", "exit code 6"), ("memory", "exit code 4: OutOfMemory"), ("hang", "longer than")):
            with self.subTest(kind):
                self.setUp()
                self.fault(kind, "steps", "tune", part="step", name="mlp_small", steps="mlp_small:f32,fashion:f32")
                self.assertIn("- steps: **mlp_small:f32**: eager: " + why, self.page())
                self.assertTrue(self.rows(bench="fashion", impl="warptape captured"))
                self.assertIn("| tune | passed", self.page())

    def test_losses_that_disagree(self):
        for part, kind in (("step", "nan"), ("torch", "loss")):
            with self.subTest(part):
                self.setUp()
                self.fault(kind, "steps", part=part, name="fashion", steps="gpt:bf16,fashion:f32")
                self.assertIn("fashion:f32: losses disagree", self.page())
                self.assertNotIn("gpt:bf16: losses disagree", self.page())

    def test_peer_that_dies_or_hangs(self):
        for kind in ("crash", "hang", "memory"):
            with self.subTest(kind):
                self.setUp()
                self.plan(fault={"torch:gpt": kind})
                self.expect(3, "steps", seconds=2000, steps="gpt:bf16,fashion:f32")
                self.assertIn("| steps | passed", self.page())
                self.assertFalse(self.rows(bench="gpt", impl="torch eager"))
                self.assertTrue(self.rows(bench="fashion", impl="torch eager"))
                self.assertTrue(self.rows(bench="gpt", impl="warptape captured"))

    def test_files_that_fail_and_hang(self):
        self.plan(tests={"ops_test": "failed", "cuda_gpu_test": "hang"})
        self.expect(1, "tests")
        self.assertIn("- tests: **ops_test 1/2**: sums are right", self.page())
        self.assertIn("- tests: **cuda_gpu_test**: longer than", self.page())

    def test_tune(self):
        self.fault("nan", "tune", part="tune", name="sum")
        self.assertIn("- tune: sum:warp", self.page())

    def test_checkers(self):
        self.plan(finds="racecheck")
        self.expect(1, "racecheck", "synccheck")
        self.assertIn("- racecheck: **sum**: Invalid __global__ write of size 4 bytes", self.page())
        self.assertIn("| synccheck | passed", self.page())
        self.plan(checker="unsupported")
        self.expect(3, "--fresh", "memcheck")
        self.assertIn("| memcheck | SKIPPED: compute-sanitizer does not support this machine", self.page())

    # --- cuts ---

    def test_cut_at_ten_places(self):
        """Of one folder, one after the other: what a call has done, the next ones do not do again."""
        steps = "gpt:bf16,fashion:f32"
        self.expect(0, steps=steps)
        pieces = float(self.read("pieces"))
        key = lambda r: (r["bench"], r["impl"], r.get("dtype"))  # noqa: E731
        whole = {key(r) for r in self.rows()}
        self.setUp()
        cuts = [1 + int(i * (pieces - 1) / 9) for i in range(10)]
        self.plan(cut=cuts)
        kept = []
        for at in cuts:
            with self.subTest(at=at):
                self.assertEqual(self.gate(steps=steps), -9, self.said)
                self.wait_for_what_was_left()
                self.assertEqual(self.rows()[: len(kept)], kept)
                kept = self.rows()
                if kept:
                    self.assertIn("# GPU gate", self.page())
        self.expect(0, steps=steps)
        self.assertEqual(self.rows()[: len(kept)], kept)
        self.assertEqual({key(r) for r in self.rows()}, whole)
        for part in PARTS:
            self.assertIn(f"| {part} | passed", self.page())

    def test_torn_lines(self):
        """What a cut left half is no row, and what follows it is one."""
        self.plan(cut=[3])
        self.gate(steps="gpt:bf16")
        self.wait_for_what_was_left()
        for name in ("out/gpu_gate.jsonl", "out/gpu_gate_state.jsonl"):
            with open(self.path(name), "a", encoding="utf-8") as f:
                f.write('{"bench": "half')
        self.expect(0, steps="gpt:bf16")
        self.assertEqual(len({r["impl"] for r in self.rows(bench="check")}), 4)


if __name__ == "__main__":
    unittest.main()
