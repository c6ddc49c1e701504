"""What a call does as time is left: two ranks on one GPU, the checkers of CUDA's toolkit, counters."""

import json
import os
import shutil
import sys
import tempfile

from journal import lines_of
from process import Process, wait_any

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(ROOT, "tools", "results"))
import prediction  # noqa: E402
import results_page  # noqa: E402

NCCL_SECONDS = 40
CHECKED_SECONDS = 120  # of one contract under a checker: their start alone takes seconds
NCU_KERNELS = 5
NCU_LAUNCHES = 4
# Contracts whose kernels share memory between threads or lanes: what the checkers of races and of
# barriers look at. Those of one element a thread would take their time for nothing.
SHARED = (
    "sum,max,argmax,any,logsumexp,norm,prod,variance,matmul,softmax_forward,softmax_backward,"
    "cross_entropy_forward,cross_entropy_backward,mse_forward,embedding_backward,grad_norm,copy,"
    "layer_norm_forward,layer_norm_backward_input,layer_norm_backward_params,ctc_forward,ctc_backward,"
    "cholesky,solve_triangular,qr,eigh,svd,lu,nll_forward,scan,scatter,sort,bincount,multinomial,"
    "attention_forward,attention_backward,conv_backward_weight,image_batch,image_color,image_erase,"
    "image_mix,image_warp,fft"
)


def nccl(gate):
    """Two processes, each a rank, on one GPU. NCCL before 2.30 takes them when each names a host of
    its own; then they talk over the loopback interface: values, not speed."""
    if gate.options.emulator:
        return "SKIPPED: NCCL needs a real GPU"
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for rank in (0, 1):
            env = {**gate.programs.env, "NCCL_HOSTID": f"rank{rank}", "NCCL_SOCKET_IFNAME": "lo",
                   "NCCL_IB_DISABLE": "1", "NCCL_MAX_CTAS": "4", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}  # fmt: skip
            argv = gate.bench("nccl", "--rank", str(rank), "--world", "2", "--folder", folder,
                              "--json", gate.rows)  # fmt: skip
            running.append(Process(argv, clock=gate.clock, log=gate.log, env=env,
                                   limit=min(NCCL_SECONDS, gate.left())))  # fmt: skip
        ends = []
        try:
            while running:
                wait_any(running)
                for p in list(running):
                    if (ended := p.poll()) is not None:
                        running.remove(p)
                        ends.append(ended)
        finally:
            for p in running:
                p.stop("interrupted")
    if all(e.code == 77 for e in ends):
        return ends[0].last
    bad = [e.why() for e in ends if e.code != 0]
    return "FAILED: " + bad[0] if bad else "passed"


def sanitizer(tool, *flags):
    """A part: small odd sizes under one of compute-sanitizer's tools. Vendor kernels are not ours to
    check."""

    def part(gate):
        program = shutil.which("compute-sanitizer")
        if not program:
            return "SKIPPED: no compute-sanitizer"
        only = gate.options.only or (SHARED if tool in ("racecheck", "synccheck") else "")
        at = gate.journal.at(tool)
        argv = gate.bench("check", "--without", "vendor", "--for", f"{max(1.0, gate.left() / 2):.0f}",
                          *(["--only", only] if only else []), *(["--from", at] if at else []),
                          *(["--poison", "no"] if tool == "initcheck" else []))  # fmt: skip
        seen = Findings()
        ended = gate.run(
            [program, "--tool", tool, "--error-exitcode", "9", "--launch-timeout", str(CHECKED_SECONDS),
             *flags, *argv],
            gate.left(), env={"WT_ALLOC": "direct"}, on_line=seen.heard,
        )  # fmt: skip
        if seen.refused:
            return "SKIPPED: compute-sanitizer does not support this machine"
        if seen.contracts or ended.code not in (0, 3, None):
            name = " ".join(seen.contracts) or (seen.contract or "start")
            gate.item(tool, name, "FAILED: " + (seen.first or ended.why()), ended.seconds)
        if seen.left or ended.stopped:
            gate.goes_on_at(tool, seen.left or seen.contract or at)
            return None
        bad = gate.journal.failed(tool)
        return "FAILED: " + " ".join(bad) if bad else "passed"

    return part


class Findings:
    """What a checker says between the names of contracts."""

    def __init__(self):
        self.contract = self.left = self.first = None
        self.contracts, self.refused = [], False

    def heard(self, line):
        if line.startswith("BEGIN "):
            self.contract = line.split()[1]
        elif line.startswith("LEFT: from "):
            self.left = line.split()[2]
        elif "Device not supported" in line:
            self.refused = True
        elif line.startswith("=========") and any(
            word in line for word in ("Invalid", "Error:", "Race", "hazard", "Uninitialized", "Barrier error")
        ):
            self.first = self.first or line.strip("= ")[:160]
            if self.contract and self.contract not in self.contracts:
                self.contracts.append(self.contract)


def model_of(gate):
    """What `wt bench model` predicts for this GPU."""
    said = []

    def heard(line):
        try:
            said.append(json.loads(line))
        except ValueError:
            pass

    gate.run([gate.programs.program, "bench", "model", "--json", "--all"], 10, on_line=heard)
    with open(os.path.join(ROOT, "bench", "sass", "sm_90a.txt"), encoding="utf-8") as f:
        kept = prediction.rows_to_keep(said, gate.probe.split(",")[0], f.read())
    return prediction.Model(kept, lines_of(gate.rows))


def farthest(rows, model):
    """Contracts that are slowest beside their prediction; where none is predicted, beside their ceiling."""
    behind, slow = {}, {}
    for r in results_page.kernels(rows):
        said = model.of(r)
        if said:
            behind[r["bench"]] = max(behind.get(r["bench"], 0), said[0]["fraction"] / said[1])
        if r.get("ratio"):
            slow[r["bench"]] = max(slow.get(r["bench"], 0), 1 / r["ratio"])
    found = behind or slow
    return sorted(found, key=lambda name: -found[name])[:NCU_KERNELS]


def ncu(gate):
    """Counters of the kernels that are farthest from their model, a file for all."""
    program = shutil.which("ncu")
    if not program:
        return "SKIPPED: no ncu"
    names = farthest(lines_of(gate.rows), model_of(gate))
    if not names:
        return "SKIPPED: no kernel has been timed"
    for name in names:
        if name in gate.journal.items("ncu"):
            continue
        if gate.left() < 4:
            return None
        ended = gate.run(
            [program, "--clock-control", "none", "--csv", "--page", "details", "--set", "detailed",
             "--launch-count", str(NCU_LAUNCHES), "--kill", "yes",
             # Not those that make the operands: a family's kernels begin as its contracts do.
             "--kernel-name", f"regex:{name.split('_')[0]}",
             *gate.bench("kernels", "--only", name, "--seconds", "0.001", "--ceilings", gate.rows)],
            30, quiet=30,
        )  # fmt: skip
        table = [line for line in ended.lines if line.startswith('"')]
        if table:
            with open(gate.path("ncu.csv"), "a", encoding="utf-8") as f:
                f.write("\n".join(table) + "\n")
        refused = any("ERR_NVGPUCTRPERM" in line or "LibraryNotLoaded" in line for line in ended.lines)
        if refused:
            return "SKIPPED: ncu may not read counters on this machine"
        gate.item("ncu", name, "passed" if table else "FAILED: " + ended.why(), ended.seconds)
    bad = gate.journal.failed("ncu")
    return "FAILED: " + " ".join(bad) if bad else "passed"
