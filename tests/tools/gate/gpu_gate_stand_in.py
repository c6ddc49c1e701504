"""Stands in for wt_gpu, compute-sanitizer, ncu and python3 with torch in gpu_gate_test.py. What it does
is in plan.json beside it; it takes no time but moves the clock of the gate.

plan: {"contracts": [...], "fault": {"check:sum": KIND, "tune:..": .., "step:gpt": .., ...},
       "seconds": {"check": 1, ...}, "tests": {name: "passed" | "failed" | "hang"}, "cut": [N...], "probe": ...}
cut: the gate that runs this is killed as the Nth piece of work begins."""

import fcntl
import json
import os
import signal
import sys
import time

HERE = os.environ["STAND_IN"]
PROBE = "NVIDIA Stand-in H200, driver for CUDA 13.0, runtime 13.0, a cpu, warptape 0.1.0 abc"


def plan(key, otherwise=None):
    with open(os.path.join(HERE, "plan.json"), encoding="utf-8") as f:
        return json.load(f).get(key, otherwise)


def changed(name, change):
    """A number that all these processes share."""
    with open(os.path.join(HERE, name), "a+", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        value = change(float(f.read() or 0))
        f.truncate(0)
        f.write(str(value))
    return value


def moved(seconds):
    return changed("clock", lambda v: v + seconds)


def now():
    return changed("clock", lambda v: v)


def note(text):
    with open(os.path.join(HERE, "calls"), "a", encoding="utf-8") as f:
        f.write(text + "\n")


def work(part, name):
    """One piece: takes its time, and may be where the gate is cut or where the fault is."""
    if changed("pieces", lambda v: v + 1) in plan("cut", []):
        with open(os.path.join(HERE, "left"), "w", encoding="ascii") as f:
            f.write(str(os.getpid()))
        os.kill(int(os.environ["GATE_PID"]), signal.SIGKILL)
        time.sleep(0.2)  # the gate is gone, this process goes on for a while
    note(f"{part}:{name}")
    moved(plan("seconds", {}).get(part, 1))
    return plan("fault", {}).get(f"{part}:{name}")


def say(text):
    print(text, flush=True)


def fail(kind):
    if kind == "hang":
        while True:
            moved(20)
            time.sleep(0.05)
    if kind == "crash":
        say("[device] an illegal memory access was encountered (sticky)")
        sys.exit(6)
    if kind == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "fail":
        say("InternalError: planted")
        sys.exit(1)


def option(args, name, otherwise=None):
    return args[args.index(name) + 1] if name in args else otherwise


def row(args, **values):
    file = option(args, "--json")
    if file:
        with open(file, "a", encoding="utf-8") as f:
            f.write(json.dumps({"device": "cuda:0", "dtype": "f32", "shape": "1", "impl": "ours", **values}) + "\n")


def contracts(args):
    names = plan("contracts")
    only, skip = option(args, "--only"), (option(args, "--skip") or "").split(",")
    begin = names.index(option(args, "--from")) if "--from" in args else 0
    return [n for n in names[begin:] if n not in skip and (not only or n in only.split(","))]


def out_of_time(args, begin):
    return "--for" in args and now() - begin > float(option(args, "--for"))


def check(args):
    begin, wrong = now(), False
    for n, name in enumerate(contracts(args)):
        if n and out_of_time(args, begin):
            say(f"LEFT: from {name}")
            sys.exit(1 if wrong else 3)
        say(f"BEGIN {name}")
        kind = work("check", name)
        fail(kind)
        verdict = {"nan": "WRONG: relative error inf", "memory": "OUT OF MEMORY: 1 TiB"}.get(kind, "ok")
        row(args, bench="check", impl=f"{name}:best", check=verdict)
        if verdict != "ok":
            wrong = True
            say(f"{verdict.split(':')[0]}: {name} best: {verdict}")
    say("9 launches on cuda:0 compared with the cpu")
    sys.exit(1 if wrong else 0)


def bench(args):
    what = args[0]
    if what == "probe":
        if plan("probe") == "none":
            say("SKIPPED: no driver")
            sys.exit(77)
        if plan("probe") == "bad":
            say("unknown error")
            sys.exit(6)
        say(plan("probe", PROBE))
        row(args, bench="probe", driver="1")
    elif what == "check":
        check(args)
    elif what == "ceilings":
        for name in ("ceiling_copy", "ceiling_gemm", "ceiling_launch"):
            fail(work("ceilings", name))
            row(args, bench=name, median_us=1.0, gb_s=3000.0)
    elif what == "step":
        model, mode = option(args, "--model"), option(args, "--mode")
        kind = work("step", model)
        fail(kind)
        if kind == "memory":
            say("OutOfMemory: 1 TiB")
            sys.exit(4)
        loss = None if kind == "nan" else 2.0
        row(args, bench=model, impl=f"warptape {mode}", dtype=option(args, "--precision"), median_us=10.0,
            p10_us=9.0, p90_us=11.0, check_loss=loss)  # fmt: skip
    elif what == "nccl":
        fail(work("nccl", "ranks"))
        row(args, bench="nccl_all_reduce", median_us=5.0)
    elif what == "model":
        for name, ratio in (("softmax_warp", 0.5), ("adam_step_warp", 0.9)):
            say(json.dumps({"bench": name + "<f32>", "shape": "H200", "dtype": "f32", "ratio": ratio, "bound": "copy"}))
    elif what == "kernels":
        note(f"ncu:{option(args, '--only')}")
        say('"ID","Kernel Name","Metric Name","Metric Value","Metric Unit"')
        say('"0","softmax","Duration","5","us"')


def tune(args):
    file, begin = option(args, "--output"), now()
    done = open(file, encoding="utf-8").read().split() if os.path.exists(file) else []
    for n, name in enumerate(plan("contracts")):
        if name in done:
            continue
        if n and out_of_time(args, begin):
            say("LEFT: some tasks")
            sys.exit(3)
        kind = work("tune", name)
        fail(kind)
        row(args, bench=name, impl="warp", check="wrong" if kind == "nan" else "right", median_us=100.0, ratio=0.5,
            bound="copy")  # fmt: skip
        with open(file, "a", encoding="utf-8") as f:
            f.write(name + "\n")


def tests(args):
    name = args[-1].strip("[#]")
    note(f"tests:{name} devices {os.environ['WT_TEST_DEVICES']} shard {os.environ['WT_SHARD']}")
    how = plan("tests", {}).get(name, "passed")
    changed("pieces", lambda v: v)
    if how == "hang":
        fail("hang")
    if how == "failed":
        rule = "-" * 79
        say(f"{rule}\nsums are right\n{rule}\nsum_test.cpp:12\n{'.' * 79}\n\ntest cases: 2 | 1 passed | 1 failed")
        sys.exit(1)
    say("All tests passed (1 assertion in 1 test case)")


def torch(args):
    if plan("torch") == "none":
        say("SKIPPED: python3 has no torch")
        sys.exit(77)
    if "--serve" not in args:
        return
    say(json.dumps({"ready": True, "torch": "2.11.0"}))
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("quit"):
            break
        kind = work("torch", asked["model"])
        fail(kind)
        if kind == "memory":
            say(json.dumps({"failed": "OutOfMemoryError", **asked}))
            continue
        say(json.dumps({
            "bench": asked["model"], "impl": "torch " + asked["mode"], "dtype": asked["precision"], "shape": "1",
            "median_us": 20.0, "p10_us": 19.0, "p90_us": 21.0, "check_loss": 9.0 if kind == "loss" else 2.0,
        }))  # fmt: skip


def checker(args):
    tool = option(args, "--tool")
    if os.environ.get("WT_ALLOC") != "direct":
        sys.exit(8)
    if plan("checker") == "unsupported":
        say("========= Error: Device not supported. Please refer to the documentation")
        sys.exit(1)
    say("BEGIN sum")
    work("checker", tool)
    if plan("finds") == tool:
        say("========= Invalid __global__ write of size 4 bytes")
        sys.exit(9)


def main():
    name, args = os.path.basename(sys.argv[0]), sys.argv[1:]
    if name == "wt_gpu":
        {"bench": bench, "tune": tune, "tests": tests}[args[0]](args[1:])
    elif name == "compute-sanitizer":
        checker(args)
    elif name == "ncu":
        bench(args[args.index("kernels") :])
    else:
        torch(args)


main()
