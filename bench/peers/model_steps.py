#!/usr/bin/env python3
"""Training steps of models by name on the cpu: `wt bench step` beside PyTorch's modes, in turns.

    model_steps.py build/release/wt [--model NAME[:BATCH[:IMAGE]]]... [--threads 1,2] [--precision f32]
                   [--seconds 1] [--windows 5] [--python PYTHON] [--rows FILE] [--once]

A row is measured ours, theirs, theirs, ours (--once: ours, theirs), one process a side, on the same
cores. Theirs are eager and compiled, ours eager with --recompute (torch.compile makes again what is cheap,
too); of pictures all with channels_last as well. The fastest of a side counts.
Losses after a step must agree, or the row is void. stdout: a Markdown table for each number of
threads. --rows keeps the JSON lines. Exit code 1: void rows; 77: PYTHON has no torch; 7: a side failed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import gpu_steps

HERE = pathlib.Path(__file__).resolve().parent
ROWS = ("resnet18_cifar", "mobilenet_v2", "pointnet", "gpt2_block")
PICTURES = ("resnet", "mobilenet", "efficientnet")


def pinned(threads):
    """(prefix of a command, environment) for this many threads, one a core."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    env = dict(os.environ, **{name: str(threads) for name in names})
    cache = HERE / ".venv" / "inductor"
    env.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    env.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    return ["taskset", "-c", ",".join(map(str, cores))], env


def modes_of(model):
    plain = ("eager", "compile")
    return plain + tuple(f"channels_last {m}" for m in plain if model.startswith(PICTURES))


class Peer:
    """A python3 with torch that answers requests (gpu_steps.py --serve)."""

    def __init__(self, python, threads):
        prefix, env = pinned(threads)
        self.start([*prefix, python, str(HERE / "gpu_steps.py"), "--serve", "--device", "cpu"], env)

    def start(self, command, env):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        first = self.process.stdout.readline()
        if not first.startswith("{"):
            print(first.strip() or "SKIPPED: the peer did not start")
            sys.exit(77)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {**request, "failed": "the peer has ended"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours(args, model, batch, image, threads):
    rows = run_ours(args, model, batch, image, threads, ["--recompute"])
    if model.startswith(PICTURES):
        rows += run_ours(args, model, batch, image, threads, ["--recompute", "--channels-last"])
    return rows


def run_ours(args, model, batch, image, threads, options):
    prefix, env = pinned(threads)
    command = [args.wt, "bench", "step", "--json", "--model", model, "--precision", args.precision,
               "--seconds", str(args.seconds), "--windows", str(args.windows), *options]  # fmt: skip
    command += ["--batch", str(batch)] * bool(batch) + ["--image", str(image)] * bool(image)
    got = subprocess.run([*prefix, *command], env=env, capture_output=True, text=True, check=False)
    if got.returncode:
        print(f"{args.wt} failed: {got.stderr.strip()}", file=sys.stderr)
        sys.exit(7)
    return [{**json.loads(line), "threads": threads} for line in got.stdout.splitlines()]


def theirs(args, peer, model, batch, image, first):
    rows = []
    for mode in modes_of(model):
        got = peer.ask({"model": model, "precision": args.precision, "mode": mode, "batch": batch,
                        "image": image, "seconds": args.seconds, "windows": args.windows,
                        "peak": first})  # fmt: skip
        if "failed" in got:
            print(f"torch {mode} of {model}: {got['failed']}", file=sys.stderr)
        else:
            rows.append(got)
    if not rows:
        sys.exit(7)
    return rows


def measure(args, threads):
    rows, peer = [], Peer(args.python, threads)
    for text in args.model or ROWS:
        name, *sizes = text.split(":")
        batch, image = (list(map(int, sizes)) + [0, 0])[:2]
        turns = ("ours", "theirs") if args.once else ("ours", "theirs", "theirs", "ours")
        for turn, who in enumerate(turns):
            if who == "ours":
                rows += ours(args, name, batch, image, threads)
            else:
                rows += theirs(args, peer, name, batch, image, turn == 1)
    peer.close()
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wt")
    parser.add_argument("--model", action="append", metavar="NAME[:BATCH[:IMAGE]]")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--precision", default="f32", choices=("f32", "f16", "bf16"))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--python", default=str(HERE / ".venv" / "bin" / "python"))
    parser.add_argument("--rows")
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    void = []
    for threads in map(int, args.threads.split(",")):
        load = os.getloadavg()[0]
        rows = measure(args, threads)
        if args.rows:
            with open(args.rows, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        void += gpu_steps.disagreeing(rows)
        print(f"## {threads} thread{'s' * (threads > 1)}; load average {load:.2f} before\n")
        print(gpu_steps.table(rows), flush=True)
        print()
    return 1 if void else 0


if __name__ == "__main__":
    sys.exit(main())
