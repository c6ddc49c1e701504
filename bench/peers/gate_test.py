"""What gate.py decides, on made-up peers and a made-up tool: python3 bench/peers/gate_test.py"""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gate  # noqa: E402

OURS = {
    "tape_add": 0.1,
    "mlp_tiny": 5.0,
    "mlp_small": 4000.0,
    "mnist_cnn": 60000.0,
    "fashion_cnn": 30000.0,
    "gpt_small": 40000.0,
    "adam_step": 17000.0,
}
PEERS = {
    "torch eager": {"tape_add": 5.0, "mlp_tiny": 300.0, "mlp_small": 5000.0, "mnist_cnn": 110000.0},
    "torch fused": {
        "mlp_tiny": 310.0,
        "mlp_small": 4900.0,
        "gpt_small": 65000.0,
        "adam_step": 30000.0,
    },
    "torch compile": {"mlp_tiny": 400.0, "mlp_small": 6000.0, "gpt_small": 60000.0},
    "libtorch": {
        "tape_add": 3.0,
        "mlp_tiny": 100.0,
        "mlp_small": 4500.0,
        "mnist_cnn": 90000.0,
        "fashion_cnn": 60000.0,
        "gpt_small": 70000.0,
        "adam_step": 60000.0,
    },
    "torch fused nhwc": {"mnist_cnn": 70000.0, "fashion_cnn": 50000.0},
    "jax jit": {"mlp_tiny": 30.0, "mlp_small": 3000.0, "mnist_cnn": 200000.0},
}


class GateTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.venv = pathlib.Path(self.folder.name)
        (self.venv / "bin").mkdir()
        self.peers = {impl: dict(rows) for impl, rows in PEERS.items()}
        self.ours = dict(OURS)
        self.loader, self.data = 50000.0, []
        self.loss = {}

    def tearDown(self):
        self.folder.cleanup()

    def script(self, name, cases, tail="exit 0"):
        """A program that prints a branch's rows when its arguments contain the branch's word."""
        text = '#!/bin/sh\ncase "$*" in\n'
        for word, impls in cases:
            text += f"*\"{word}\"*)\ncat <<'ROWS'\n"
            for impl, rows in impls.items():
                for bench, us in rows.items():
                    loss = self.loss.get((impl, bench), 0.5 if bench != "tape_add" else None)
                    text += (
                        json.dumps(
                            {"bench": bench, "impl": impl, "median_us": us, "check_loss": loss}
                        )
                        + "\n"
                    )
            text += "ROWS\n;;\n"
        path = self.venv / "bin" / name
        path.write_text(text + "esac\n" + tail + "\n")
        path.chmod(0o755)
        return path

    def run_gate(self, torch=True, jax=True, libtorch=True, tool=True, libtorch_tail="exit 0"):
        site = self.venv / "lib" / "python3" / "site-packages"
        for name, wanted in (("torch", torch), ("jax", jax)):
            if wanted:
                (site / name).mkdir(parents=True)
        p = self.peers
        if torch or jax:
            self.script(
                "python",
                [
                    ("compile", {"torch compile": p["torch compile"]}),
                    ("eager", {k: p[k] for k in ("torch eager", "torch fused", "torch fused nhwc")}),
                    ("peer_jax", {"jax jit": p["jax jit"]}),
                ],
            )
        if libtorch:
            self.script("peer_libtorch", [("", {"libtorch": p["libtorch"]})], libtorch_tail)
        wt = (
            self.script(
                "wt",
                [
                    ("bench overhead --json", {"warptape": self.ours}),
                    ("bench loader --json", {"warptape w0": {"loader": self.loader}}),
                ],
            )
            if tool
            else "nowhere"
        )
        said = io.StringIO()
        # One thread only: a machine with one core can run this test.
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = gate.main([str(wt), "--venv", str(self.venv), "--threads", "1", *self.data])
        return code, said.getvalue()

    def test_above_every_gate(self):
        code, said = self.run_gate()
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("passed"), 8, said)
        self.assertIn("SKIPPED: no --data", said)
        self.assertIn("100.0 ns an operator", said)

    def test_below_one_gate(self):
        self.ours["mlp_tiny"] = 6.5  # 46x torch still, 4.6x jax
        code, said = self.run_gate()
        self.assertEqual(code, 1, said)
        self.assertEqual(said.count("BELOW"), 1, said)

    def test_the_best_mode_counts(self):
        self.peers["torch fused"]["mlp_small"] = 3900.0
        code, said = self.run_gate()
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"G5e .*torch fused .*BELOW")

    def test_libtorch_counts_for_the_small_mlp(self):
        self.peers["libtorch"]["mlp_small"] = 3900.0
        code, said = self.run_gate()
        self.assertEqual(code, 1, said)

    def test_the_other_order_counts_for_the_cnn(self):
        self.peers["torch fused nhwc"]["mnist_cnn"] = 59000.0
        code, said = self.run_gate()
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"G8 .*torch fused nhwc .*BELOW")

    def test_only_the_rows_that_are_asked_for(self):
        self.data = ["--bench", "mlp_small", "--bench", "mlp_tiny"]
        code, said = self.run_gate()
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("passed"), 3, said)
        self.assertRegex(said, r"G8 +mnist_cnn .*SKIPPED: not asked for")

    def test_the_loader_with_data(self):
        self.data = ["--data", "somewhere"]
        self.peers["torch eager"]["loader"] = 90000.0
        code, said = self.run_gate()
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"G7 +loader .*1\.80x torch eager .*passed")
        self.assertEqual(said.count("passed"), 9, said)

    def test_the_slower_loader_is_below(self):
        self.data = ["--data", "somewhere"]
        self.peers["torch eager"]["loader"] = 40000.0
        code, said = self.run_gate()
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"G7 +loader .*BELOW")

    def test_one_lost_pair_is_below(self):
        # Medians alone would pass: 4000 against (3900 + 5000) / 2.
        self.peers["libtorch"]["mlp_small"] = 5000.0
        marker = self.venv / "first"
        row = json.dumps({"bench": "mlp_small", "impl": "libtorch", "median_us": 3900.0})
        self.peers["torch eager"]["mlp_small"] = self.peers["torch fused"]["mlp_small"] = 9000.0
        code, said = self.run_gate(
            libtorch_tail=f"[ -e {marker} ] || {{ touch {marker}; echo '{row}'; }}"
        )
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"G5e .*worst pair 0\.97x +BELOW")

    def test_nothing_installed(self):
        code, said = self.run_gate(torch=False, jax=False, libtorch=False)
        self.assertEqual(code, 0)
        self.assertIn("SKIPPED: no peer installed", said)

    def test_one_peer_missing(self):
        code, said = self.run_gate(jax=False)
        self.assertEqual(code, 0, said)
        self.assertIn("SKIPPED: jax not installed", said)

    def test_a_peer_that_fails(self):
        code, said = self.run_gate(libtorch_tail="echo broken >&2; exit 3")
        self.assertEqual(code, 7, said)
        self.assertIn("exit 3: broken", said)
        self.assertIn("NO FIGURE", said)

    def test_other_work_is_void(self):
        self.loss["jax jit", "mlp_tiny"] = 0.51
        code, said = self.run_gate()
        self.assertEqual(code, 1, said)
        self.assertIn("VOID", said)

    def test_no_tool(self):
        code, said = self.run_gate(tool=False)
        self.assertEqual(code, 2, said)


if __name__ == "__main__":
    unittest.main()
