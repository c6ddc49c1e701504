"""Rows of `wt bench operators` beside PyTorch, in one run: ours and PyTorch's program take turns, and
the minimum of each counts, so that what else the machine does falls out. One thread is measured by
its processor time, more by the clock on the wall.

    bench/peers/.venv/bin/python bench/peers/operators.py build/release/wt [--rounds 3] [--only NAME]

PyTorch's best mode is the faster of contiguous and channels_last operands; ours are contiguous.
"""
import argparse
import json
import os
import subprocess
import sys
import time

GOAL = 1.5


def torch_row(row, windows, clock):
    """The least time of a row in microseconds, over the modes."""
    import torch
    import torch.nn.functional as F

    calls = {"conv1d": F.conv1d, "conv2d": F.conv2d, "conv_transpose2d": F.conv_transpose2d}
    words = row["shape"].split()
    shapes = [[int(n) for n in w.split("x")] for w in words if "x" in w]
    options = {k: int(words[words.index(k) + 1])
               for k in ("kernel", "stride", "padding", "sizes", "p") if k in words}
    pools = {"max_pool2d": F.max_pool2d, "avg_pool2d": F.avg_pool2d}
    dtype = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
             "bf16": torch.bfloat16}[row["dtype"]]

    def call(operands):
        if row["bench"] == "cdist":
            return torch.cdist(*operands, p=float(options["p"]))
        if row["bench"] in pools:
            return pools[row["bench"]](*operands, options["kernel"], options["stride"],
                                       options["padding"])
        if row["bench"] == "adaptive_avg_pool2d":
            return F.adaptive_avg_pool2d(*operands, options["sizes"])
        if row["bench"] == "attention":
            return F.scaled_dot_product_attention(*operands, is_causal="causal" in words)
        return calls[row["bench"]](*operands, **options)

    def once(operands):
        begin = clock()
        if row["gradients"]:
            for x in operands:
                x.grad = None
            call(operands).sum().backward()
        else:
            with torch.no_grad():
                call(operands)
        return (clock() - begin) * 1e6

    best = float("inf")
    for last in ([False, True] if row["bench"].endswith("2d") else [False]):
        operands = [torch.randn(s).to(dtype) for s in shapes]
        if last:
            operands = [x.contiguous(memory_format=torch.channels_last) for x in operands]
        for x in operands:
            x.requires_grad_(bool(row["gradients"]))
        spent = once(operands)
        for _ in range(windows):
            us = once(operands)
            best = min(best, us)
            spent += us
            if spent > 3e6:
                break
    return best


def torch_main():
    """The peer's side: rows of ours on stdin, the same with its time on stdout."""
    import torch
    threads, windows = int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    print(json.dumps({"version": torch.__version__}))
    for line in sys.stdin:
        row = json.loads(line)
        print(json.dumps({**row, "min_us": torch_row(row, windows, clock)}), flush=True)


def key(row):
    return row["bench"], row["shape"], row["dtype"], row["gradients"]


def ours(arguments, threads, only):
    command = [arguments.wt, "bench", "operators", "--json", "--threads", str(threads),
               "--windows", str(arguments.windows)]
    for name in only or []:
        command += ["--only", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def theirs(arguments, rows, threads):
    text = "".join(json.dumps(r) + "\n" for r in rows)
    command = [sys.executable, __file__, "--torch", str(threads), str(arguments.windows)]
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[0]["version"], lines[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("wt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", action="append")
    arguments = parser.parse_args()
    above = 0
    for threads in arguments.threads:
        mine, peer = {}, {}

        def measure(rounds, only):
            for _ in range(rounds):
                rows = ours(arguments, threads, only)
                version, others = theirs(arguments, rows, threads)
                for table, some in ((mine, rows), (peer, others)):
                    for row in some:
                        table[key(row)] = min(table.get(key(row), float("inf")), row["min_us"])
            return version

        version = measure(arguments.rounds, arguments.only)
        # Whatever else ran meanwhile makes a row slow, ours or theirs: the operators of rows above the
        # goal get as many rounds again and one more, whichever way that turns out.
        again = sorted({k[0] for k, us in mine.items() if us / peer[k] > GOAL})
        if again:
            measure(arguments.rounds + 1, again)
            print(f"\nmeasured for {arguments.rounds + 1} more rounds: {', '.join(again)}")
        print(f"\n{threads} thread{'s' if threads > 1 else ''}; PyTorch {version}; minima of "
              f"{arguments.rounds} x {arguments.windows} calls in us; load average "
              f"{os.getloadavg()[0]:.1f}\n")
        print(f"{'operator':<20}{'shape':<48}{'dtype':<6}{'':<10}{'ours':>10}{'PyTorch':>11}"
              f"{'ratio':>7}")
        for k, us in mine.items():
            ratio = us / peer[k]
            above += ratio > GOAL
            print(f"{k[0]:<20}{k[1]:<48}{k[2]:<6}{'gradients' if k[3] else 'forward':<10}"
                  f"{us:>10.0f}{peer[k]:>11.0f}{ratio:>7.2f}{' <' if ratio > GOAL else ''}",
                  flush=True)
    print(f"\n{above} rows above {GOAL}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--torch":
        torch_main()
    else:
        main()
