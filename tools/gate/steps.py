"""Whole training steps beside PyTorch's, in turns: ours, theirs, theirs, ours."""

import json
import os
import subprocess
import sys

from journal import append, lines_of
from process import Process, wait_any

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers")
sys.path.insert(0, PEERS)
import gpu_steps  # noqa: E402  its comparison needs no torch

# The most telling first: a call may end after any of them.
ORDER = ("gpt:bf16", "mlp_small:f32", "fashion:f32", "charlm:f32", "gpt:f16", "gpt:tf32",
         "mlp_small:bf16", "fashion:f16", "charlm:bf16", "gpt:f32", "mlp_small:f16", "mlp_small:tf32",
         "fashion:bf16", "fashion:tf32", "charlm:f16", "charlm:tf32")  # fmt: skip
OURS = ("eager", "captured")
THEIRS = gpu_steps.MODES
COMPILED_AHEAD = "gpt:bf16,mlp_small:f32,fashion:f32,charlm:f32,gpt:f16"
WINDOWS = 3
START_SECONDS = 60  # of python3 with torch, on a cold disk
ANSWER_SECONDS = 60  # of one mode; compiling is most of it
# Losses are compared with PyTorch's: that launches are compared with the plainest variants' on top of it
# would only take time, at these sizes seconds each.
ENV = {"WT_FIRST_USE": "off"}


class Warm:
    """PyTorch compiles its steps while values are compared, which nobody times: a minute a network,
    which the peers then find in the compiler's cache."""

    def __init__(self, gate):
        self.process = None
        if not gate.options.emulator and gate.journal.result("steps") is None:
            self.process = Process(
                ["python3", os.path.join(PEERS, "gpu_steps.py"), "--warm", COMPILED_AHEAD,
                 "--scale", gate.options.scale],
                clock=gate.clock, log=gate.log, limit=1e9, env=dict(os.environ),
            )  # fmt: skip

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.stop("compiled long enough")
        self.process = None


class Peer:
    """A python3 with torch that answers requests, begun again where it ended."""

    def __init__(self, gate):
        self.gate, self.process, self.answers = gate, None, []
        self.why_not = ""  # "SKIPPED: why": there is no torch here

    def ready(self):
        if self.process:
            return True
        if self.why_not:
            return False
        o = self.gate.options
        device = "cpu" if o.emulator else "cuda"
        self.process = Process(
            ["python3", os.path.join(PEERS, "gpu_steps.py"), "--serve", "--device", device,
             "--scale", o.scale],
            clock=self.gate.clock, log=self.gate.log, limit=1e9, env=dict(os.environ),
            on_line=self.heard, stdin=subprocess.PIPE,
        )  # fmt: skip
        first = self.answer(START_SECONDS)
        if first and first.get("ready"):
            return True
        self.stop()
        self.why_not = self.why_not or "SKIPPED: PyTorch does not start"
        return False

    def heard(self, line):
        if line.startswith("SKIPPED"):
            self.why_not = line
        elif line.startswith("{"):
            try:
                self.answers.append(json.loads(line))
            except ValueError:
                pass

    def answer(self, seconds):
        """The next one; None where it does not come in time or the process ends."""
        until = self.gate.clock.now() + min(seconds, max(0, self.gate.left()))
        while True:
            ended = self.process.poll()
            if ended:
                self.process = None
            if self.answers:
                return self.answers.pop(0)
            if ended or self.gate.clock.now() > until:
                return None
            wait_any([self.process])

    def ask(self, **request):
        if not self.ready():
            return {"failed": self.why_not}
        self.process.send(json.dumps(request))
        got = self.answer(ANSWER_SECONDS)
        if got is None:
            self.stop()
            return {"failed": "no answer"}
        return got

    def stop(self):
        if self.process:
            self.process.stop("no longer needed")
        self.process = None
        self.answers = []


def run(gate):
    peer = Peer(gate)
    try:
        names = [n for n in gate.options.steps.split(",") if n] or ORDER
        for name in names:
            if name in gate.journal.items("steps"):
                continue
            left = [n for n in names if n not in gate.journal.items("steps")]
            # The large models are worth more than an equal part.
            budget = max(8.0, 2 * gate.left() / len(left))
            if gate.left() < 6:
                return None
            one(gate, peer, name, budget)
    finally:
        peer.stop()
    return result(gate, peer)


def one(gate, peer, name, budget):
    """Both turns of one model in one precision; the second is left out where time is short."""
    model, precision = name.split(":")
    begin = gate.clock.now()
    longest = 2.0 if gate.options.scale == "real" else 0.05
    window = max(0.05, min(longest, budget / 2 / (WINDOWS * (len(OURS) + len(THEIRS))) / 1.5))
    notes = []
    for turn, who in ((1, ours), (1, theirs), (2, theirs), (2, ours)):
        if turn == 2 and (gate.left() < 4 or gate.clock.now() - begin > budget):
            notes.append("one turn")
            break
        who(gate, peer, model, precision, window, notes)
    if gate.left() <= 0 and not any(r["bench"] == model for r in lines_of(gate.rows) if "bench" in r):
        return  # cut before anything was measured: the next call has it
    bad = [n[8:] for n in notes if n.startswith("FAILED: ")]
    said = "; ".join(dict.fromkeys(bad or [n for n in notes if n]))[:300]
    verdict = "FAILED: " + said if bad else "passed" + (": " + said if said else "")
    gate.item("steps", name, verdict, gate.clock.now() - begin)


def ours(gate, _, model, precision, window, notes):
    for mode in OURS:
        if gate.left() < 2:
            return
        ended = gate.run(
            gate.bench("step", "--model", model, "--precision", precision, "--mode", mode, "--seconds",
                       f"{window:.3f}", "--windows", str(WINDOWS), "--json", gate.rows,
                       "--ceilings", gate.rows,
                       *gate.plant("step")),
            60, env=ENV,
        )  # fmt: skip
        if ended.code == 77:
            notes.append(f"{mode} {ended.last}")
        elif ended.code != 0 and gate.left() > 0:
            notes.append(f"FAILED: {mode}: {ended.why()}")


def theirs(gate, peer, model, precision, window, notes):
    for mode in THEIRS:
        if gate.left() < 2 or (peer.why_not and not peer.process):
            break
        got = peer.ask(model=model, precision=precision, mode=mode, seconds=window, windows=WINDOWS)
        if "failed" in got:
            if got["failed"] != peer.why_not:
                notes.append(f"torch {mode}: {got['failed']}"[:160])
        else:
            append(gate.rows, got)
    if peer.why_not:
        notes.append(peer.why_not)


def result(gate, peer):
    bad = gate.journal.failed("steps")
    bad += [f"{n}: losses disagree" for n in disagreeing(gate)]
    if bad:
        return "FAILED: " + "; ".join(bad)
    return "passed" + (f"; {peer.why_not}" if peer.why_not else "")


def disagreeing(gate):
    """model:precision where PyTorch's loss after the same steps is another one."""
    return gpu_steps.disagreeing(lines_of(gate.rows))
