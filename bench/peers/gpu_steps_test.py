#!/usr/bin/env python3
"""gpu_steps.py over planted rows, and its protocol; needs neither torch nor a GPU."""

import json
import os
import subprocess
import sys
import tempfile

import gpu_steps

HERE = os.path.dirname(os.path.abspath(__file__))
bad = []


def expect(what, good):
    if not good:
        bad.append(what)
        print(f"FAILED: {what}")


def row(impl, us, loss=2.0, bench="gpt", dtype="bf16"):
    return {"bench": bench, "impl": impl, "dtype": dtype, "median_us": us, "check_loss": loss}


def lines(rows):
    return gpu_steps.table(rows).splitlines()


def find(rows, impl):
    return next((text for text in lines(rows) if f"| {impl} |" in text), "")


def check_table():
    rows = [row("warptape eager", 110), row("warptape captured", 100), row("torch eager", 130),
            row("torch compile", 120), row("torch compile", 122), row("torch eager", 131),
            row("warptape captured", 104)]  # fmt: skip
    expect("our fastest is 1", "| 102.0 | 1 |" in find(rows, "warptape captured"))
    expect("a ratio is of medians, the worst pair of runs",
           "| 121.0 | 1.19 | 1.15 |" in find(rows, "torch compile"))  # fmt: skip
    expect("the fastest of theirs counts", lines(rows)[-1].endswith("torch compile: 1.19, 1.15 in "
                                                                    "the worst pair"))  # fmt: skip
    expect("equal losses", gpu_steps.disagreeing(rows) == [])
    expect("theirs alone", "| - | - |" in find(rows[2:4], "torch eager"))
    expect("ours alone", "| 1 | - |" in find(rows[:2], "warptape captured"))
    expect("nothing at all", len(lines([])) == 2)
    expect("rows of other benchmarks", lines([row("torch eager", 1, bench="add")]) == lines([]))


def check_losses():
    ours = row("warptape eager", 100)
    for dtype, tolerance in gpu_steps.TOLERANCE.items():
        for factor, good in ((0.9, True), (1.1, False)):
            theirs = row("torch eager", 1, 2 + 2 * factor * tolerance, dtype=dtype)
            got = gpu_steps.disagreeing([{**ours, "dtype": dtype}, theirs])
            want = [] if good else [f"gpt:{dtype}"]
            expect(f"{factor} of the tolerance in {dtype}", got == want)
    rows = [ours, row("torch eager", 50, 2.1), row("torch compile", 80)]
    expect("a void row says so", "void: the losses disagree" in find(rows, "torch eager"))
    expect("and is not the fastest", "torch compile: 0.80" in lines(rows)[-1])
    for loss in (None, float("nan"), float("inf")):
        expect(f"a loss of {loss}", gpu_steps.disagreeing([ours, row("torch eager", 1, loss)]))
    twice = [ours, row("torch eager", 1), row("torch eager", 1, 3.0)]
    expect("one turn of two", gpu_steps.disagreeing(twice) == ["gpt:bf16"])
    expect("shows the bad turn", "3.000000, void" in find(twice, "torch eager"))


def run(*args, text="", program=(os.path.join(HERE, "gpu_steps.py"),)):
    return subprocess.run([sys.executable, "-B", *program, *args], input=text, text=True, cwd=HERE,
                          capture_output=True, timeout=60)  # fmt: skip


def check_programs():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.jsonl")
        for loss, code in ((2.0, 0), (2.5, 1)):
            with open(path, "w", encoding="utf-8") as file:
                for r in (row("warptape eager", 100), row("torch eager", 120, loss)):
                    file.write(json.dumps(r) + "\n")
            got = run("--compare", path)
            good = got.returncode == code and "| gpt |" in got.stdout
            expect(f"--compare of a loss of {loss}", good)
        with open(os.path.join(folder, "torch.py"), "w", encoding="utf-8") as file:
            file.write("raise ImportError\n")
        no_torch = f"import sys; sys.path.insert(0, {folder!r}); import gpu_steps; sys.argv[1:] = "
        for args in (["--serve"], ["--warm", "gpt:f32"], ["--losses"]):
            got = run(program=("-c", no_torch + f"{args}; sys.exit(gpu_steps.main())"))
            expect(f"{args[0]} without torch", (got.returncode, got.stdout) == (
                77, "SKIPPED: python3 has no torch\n"))  # fmt: skip


# A torch that trains nothing: what is printed meanwhile is no answer, and a failure ends nothing.
FAKE = """
import sys, types, gpu_steps
class Fake:
    torch = types.SimpleNamespace(__version__="0", version=types.SimpleNamespace(cuda=None))
    def measure(self, request):
        print("noise")
        if request["mode"] == "compile":
            raise RuntimeError("out of\\n memory")
        return {"bench": request["model"], "s": float(request["seconds"])}
    def drop(self):
        pass
gpu_steps.start = lambda device, scale: Fake()
sys.exit(gpu_steps.serve("cpu", "small"))
"""


def check_protocol():
    asked = [{"model": "gpt", "precision": "f32", "mode": mode, "seconds": 2}
             for mode in ("compile", "eager")]  # fmt: skip
    text = "".join(json.dumps(r) + "\n" for r in asked) + 'garbage\n[]\n{"quit": true}\n{}\n'
    got = run(program=("-c", FAKE), text=text)
    said = [json.loads(line) for line in got.stdout.splitlines()]
    expect("serve ends", got.returncode == 0 and len(said) == 5)
    expect("serve is ready", said[0].get("ready") is True)
    expect("a failure", said[1] == {**asked[0], "failed": "RuntimeError: out of memory"})
    expect("a row after it", said[2] == {"bench": "gpt", "s": 2.0})
    expect("what is no request", all("no request" in r["failed"] for r in said[3:]))


check_table()
check_losses()
check_programs()
check_protocol()
print("gpu_steps: " + (f"{len(bad)} failed" if bad else "passed"))
sys.exit(1 if bad else 0)
