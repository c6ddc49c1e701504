"""The GPU programme: parts in their order, each with its share of a call's time (docs/gpu_gate.md).

Called by tools/gpu_gate.sh, which has the options."""

import argparse
import datetime
import os
import signal
import sys

import pack
import page
import steps
from clock import Clock
from journal import Journal, mend, put_aside
from parts import PARTS
from process import run
from programs import Programs

EXIT_LEFT = 3
EXIT_SKIPPED = 77
PROBE_SECONDS = 20
PAGE_SECONDS = 5  # of a call that are kept for what comes after its parts


class Gate:
    """One call: what is measured with, where it is written, and until when."""

    def __init__(self, options, programs):
        self.options, self.programs, self.clock = options, programs, Clock()
        self.limit = float(os.environ.get("WT_GATE_SECONDS", "540"))
        self.out = os.path.abspath(options.out)
        os.makedirs(self.out, exist_ok=True)
        self.rows = self.path("gpu_gate.jsonl")
        self.log = open(self.path("gpu_gate.log"), "a", encoding="utf-8", buffering=1)
        self.journal = Journal(self.path("gpu_gate_state.jsonl"))
        self.deadline = self.limit - PAGE_SECONDS  # of the part that runs
        self.probe = self.journal.value("device") or ""

    def path(self, name):
        return os.path.join(self.out, name)

    def left(self):
        """Seconds of the part that runs."""
        return self.deadline - self.clock.now()

    def run(self, argv, most, env=None, **how):
        """A process that may take as long as the part has left, and no more than `most` seconds."""
        mend(self.rows)
        return run(
            argv, clock=self.clock, log=self.log, limit=max(1.0, min(most, self.left())),
            env={**self.programs.env, **(env or {})}, **how,
        )  # fmt: skip

    def bench(self, *args):
        o = self.options
        small = ["--scale", "small"] if o.scale == "small" else []
        return self.programs.bench(*args, "--device", o.device, *small)

    def plant(self, part):
        """What a rehearsal plants into this part: arguments of wt_gpu."""
        mine = [p.split(":", 1)[1] for p in self.options.plant if p.split(":", 1)[0] == part]
        return ["--plant", mine[0]] if mine else []

    def item(self, part, name, result, seconds, **more):
        """An item has ended: written down at once."""
        self.say(f"{part}: {name}: {result}")
        self.journal.add(part=part, item=name, result=result, spent=round(seconds, 1), **more)
        page.write(self)

    def goes_on_at(self, part, place, item=None):
        self.journal.add(part=part, at=place, of=item)

    def say(self, text):
        print(text, flush=True)
        self.log.write(f"[{self.clock.now():.1f} s] {text}\n")


def begin(gate):
    """The device's first words; an exit code where there is nothing to be done."""
    missing = gate.programs.missing()
    if missing:
        return stop(gate, f"SKIPPED: libraries of CUDA are not found: {missing} (pip install torch, or the "
                    "CUDA toolkit in /usr/local/cuda)", 0)  # fmt: skip
    ended = gate.run(gate.programs.bench("probe", "--device", gate.options.device), PROBE_SECONDS)
    if ended.code == EXIT_SKIPPED:
        return stop(gate, " ".join(line.strip() for line in ended.lines), 0)
    if ended.code != 0:
        return stop(gate, f"FAILED: probe: {ended.why()}", 1)
    probe = ended.lines[0]
    if gate.probe and identity(gate.probe) != identity(probe):
        return stop(gate, f"{gate.out} has results of another device or build: {gate.probe}\n"
                    f"this is: {probe}\nchoose another folder", 2)  # fmt: skip
    gate.probe = gate.probe or probe
    return None


def identity(probe):
    """Of device and build: the driver and the host may be others, on another machine of that kind."""
    words = probe.split(", ")
    return words[0], words[-1]


def stop(gate, text, code):
    """Nothing is measured: in words, on the page too where it has nothing better."""
    gate.say(text)
    if not gate.probe:
        page.write_words(gate, text)
    print("GPU gate " + ("SKIPPED" if code == 0 else "FAILED: probe" if code == 1 else "stopped"))
    return code


def plan(parts, limit):
    """When each part has to end: shares one after another, shrunk where a call is shorter."""
    share = sum(p.share for p in parts)
    shrink = min(1.0, limit / share) if share else 1.0
    ends, at = {}, 0.0
    for p in parts:
        at += p.share * shrink
        ends[p.name] = at
    return ends


def go(gate, parts):
    """The parts in their order; then, if time is left, what is left of them."""
    limit = gate.limit - PAGE_SECONDS
    open_parts = [p for p in parts if gate.journal.result(p.name) is None]
    begun = gate.clock.now()
    ends = plan(open_parts, limit - begun)
    for again in (False, True):
        for p in open_parts:
            if gate.journal.result(p.name) is not None:
                continue
            gate.deadline = limit if again else min(limit, begun + ends[p.name])
            if gate.left() < min(p.least, p.share / 2):
                continue
            one(gate, p)


def one(gate, part):
    if part.timed:
        gate.warm.stop()
    at = gate.clock.now()
    gate.say(f"--- {part.name} (at most {gate.left():.0f} s)")
    try:
        result = part.run(gate)
    except Exception as e:  # of ours: the others still run
        result = f"FAILED: {type(e).__name__}: {e}"
    spent = round(gate.clock.now() - at, 1)
    if result is None:
        gate.journal.add(part=part.name, spent=spent)
        gate.say(f"{part.name}: goes on when called again")
    else:
        gate.journal.add(part=part.name, result=result, took=spent)
        gate.say(f"{part.name}: {result}")
    page.write(gate)


def finish(gate, parts):
    results = {p.name: gate.journal.result(p.name) for p in parts}
    failed = [n for n, r in results.items() if str(r).startswith("FAILED") or gate.journal.failed(n)]
    waiting = [n for n, r in results.items() if r is None]
    took = f"{gate.clock.now():.0f} s"
    page.write(gate)
    more = f"; left: {' '.join(waiting)} - call again with {gate.options.out}" if waiting else ""
    if failed:
        print(f"GPU gate FAILED: {' '.join(failed)} ({took}){more}")
        return 1
    if waiting:
        print(f"GPU gate goes on ({took}){more}")
        return EXIT_LEFT
    print(f"GPU gate passed in {took}")
    return 0


def call(options, programs):
    gate = Gate(options, programs)
    if options.fresh:
        forget(gate)
    code = begin(gate)
    if code is not None:
        return code
    if gate.journal.value("device") is None:
        gate.journal.add(device=gate.probe, emulated=bool(options.emulator))
    gate.journal.add(call=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"))
    gate.say(gate.probe)
    chosen = [p for p in PARTS if not options.parts or p.name in options.parts]
    for p in chosen:
        if options.parts and gate.journal.result(p.name) is not None:
            put_aside(gate.rows, gate.path("gpu_gate_before.jsonl"), p.owns)
            gate.journal.add(part=p.name, anew=True)
    gate.warm = steps.Warm(gate)
    try:
        go(gate, chosen)
    except KeyboardInterrupt:
        page.write(gate)
        print("GPU gate interrupted; call again: it goes on")
        return 130
    finally:
        gate.warm.stop()
    return finish(gate, PARTS)


def forget(gate):
    gate.log.close()
    for name in page.FILES:
        try:
            os.remove(gate.path(name))
        except FileNotFoundError:
            pass
    gate.__init__(gate.options, gate.programs)


def options_of(argv):
    names = [p.name for p in PARTS]
    parser = argparse.ArgumentParser(
        prog="tools/gpu_gate.sh",
        description="Measures and proves warptape on a GPU, in calls of at most WT_GATE_SECONDS (540).",
        epilog="parts, in their order: " + " ".join(names),
    )
    parser.add_argument("out", metavar="OUTDIR", help="where the results go; a second call goes on there")
    parser.add_argument("parts", metavar="PART", nargs="*", help="only these, once more if they ran before")
    parser.add_argument("--with", dest="programs", metavar="PACK",
                        help="the file that --pack made, or a folder that has wt_gpu")  # fmt: skip
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--fresh", action="store_true", help="what earlier calls left in OUTDIR is removed")
    rehearsal = parser.add_argument_group("rehearsals, without a GPU")
    rehearsal.add_argument("--emulator", metavar="BUILD", help="the emulated device of this build tree")
    rehearsal.add_argument("--scale", choices=("real", "small"), default="real")
    rehearsal.add_argument("--only", default="", metavar="CONTRACT,...", help="these contracts alone")
    rehearsal.add_argument("--tests", default="", metavar="NAME,...", help="these test files alone")
    rehearsal.add_argument("--steps", default="", metavar="MODEL:DTYPE,...", help="these steps alone")
    rehearsal.add_argument("--plant", action="append", default=[], metavar="PART:KIND@NAME",
                           help="a fault: wt_gpu bench --plant has the kinds")  # fmt: skip
    o = parser.parse_intermixed_args(argv)
    for name in o.parts:
        if name not in names:
            parser.error(f"no part is called {name}; parts: {' '.join(names)}")
    return o


def interrupt(*_):
    raise KeyboardInterrupt


def main(argv):
    if argv[:1] == ["--pack"]:
        return pack.make(argv[1:])
    o = options_of(argv)
    signal.signal(signal.SIGTERM, interrupt)
    folder = o.programs or os.environ.get("WT_BUILD_DIR")
    try:
        if folder and os.path.isfile(folder):
            folder = pack.unpack(folder)
        programs = Programs(folder, o.emulator and os.path.join(o.emulator, "emulator"))
    except (OSError, ValueError, *pack.BROKEN) as e:
        print(f"GPU gate stopped: {folder}: {e}", file=sys.stderr)
        return 2
    return call(o, programs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
