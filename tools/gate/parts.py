"""The parts of the programme. A part's run(gate) returns "passed", "SKIPPED: why", "FAILED: why", or
None where something of it is left; what it has done is in the journal by then."""

from dataclasses import dataclass
from typing import Callable

import checks
import extras
import steps
from journal import lines_of

LEFT = None
QUIET = 60  # seconds without a word after which a process that has much to say hangs


@dataclass
class Part:
    name: str
    share: float  # of a call, in seconds
    least: float  # with less it is not begun
    run: Callable
    timed: bool = True  # the machine is to do nothing else

    def owns(self, row):
        """Whether it has measured the row, which it measures again when it is asked to."""
        bench = str(row.get("bench", ""))
        return {
            "probe": bench == "probe", "check": bench == "check", "nccl": bench.startswith("nccl_"),
            "ceilings": bench.startswith("ceiling_"), "steps": bench in steps.gpu_steps.MODELS,
        }.get(self.name, False)  # fmt: skip


def probe(gate):
    """Clocks, memory, what libraries were found."""
    gate.deadline = max(gate.deadline, gate.clock.now() + 20)  # a cold disk has half a GB of libraries to read
    ended = gate.run(gate.bench("probe", "--json", gate.rows), 20)
    return "passed" if ended.code == 0 else "FAILED: " + ended.why()


def ceilings(gate):
    """What the machine can do: copies, products, launches, transfers, the disk."""
    ended = gate.run(gate.bench("ceilings", "--json", gate.rows, "--disk", gate.out), 60, quiet=QUIET)
    return "passed" if ended.code == 0 else "FAILED: " + ended.why()


def tune(gate):
    """Every variant at real sizes, the most important contracts first."""
    o = gate.options
    only = [a for name in o.only.split(",") if name for a in ("--op", name)]
    how = ["--small"] if o.scale == "small" else ["--seconds", "0.05"]
    ended = gate.run(
        gate.programs.tune("--device", o.device, "--output", gate.path("tune.tsv"), "--json", gate.rows,
                           "--for", f"{max(1, gate.left() - 15):.0f}", *only, *how),
        gate.left(),  # hangs are its own to see: it may be silent for long
    )  # fmt: skip
    if ended.code == 3 or ended.stopped:
        return LEFT  # its file has what was done
    bad = sorted({f"{r['bench']}:{r['impl']}" for r in lines_of(gate.rows) if wrong_of_tune(r)})
    if bad:
        return "FAILED: " + " ".join(bad)
    return "passed" if ended.code == 0 else "FAILED: " + ended.why()


def wrong_of_tune(row):
    return row.get("check") in ("wrong", "unequal", "failed")


PARTS = [
    Part("probe", 5, 2, probe, timed=False),
    Part("check", 60, 10, checks.check, timed=False),
    Part("tests", 60, 10, checks.tests, timed=False),
    Part("ceilings", 25, 5, ceilings),
    Part("steps", 150, 15, steps.run),
    Part("tune", 200, 20, tune),
    Part("nccl", 15, 8, extras.nccl),
    Part("memcheck", 10, 10, extras.sanitizer("memcheck", "--padding", "2048")),
    Part("initcheck", 10, 10, extras.sanitizer("initcheck")),
    Part("racecheck", 10, 10, extras.sanitizer("racecheck")),
    Part("synccheck", 10, 10, extras.sanitizer("synccheck")),
    Part("ncu", 20, 8, extras.ncu),
]
