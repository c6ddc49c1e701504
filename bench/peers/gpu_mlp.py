#!/usr/bin/env python3
"""PyTorch's training step of mlp_small on a GPU, and the comparison with ours.

    gpu_mlp.py --json FILE            appends a row for each mode; exit code 77 without torch or GPU
    gpu_mlp.py --compare OURS THEIRS  a Markdown table; exit code 1 when the losses disagree

eager: nn modules, SGD; fused: SGD(fused=True); graph: the whole eager step as one CUDA graph;
compile: loss compiled, SGD fused; reduce-overhead: the same with torch's own graphs. f32 without
tf32, as ours. OURS and THEIRS hold the rows of two runs each, in the order ours, theirs, theirs,
ours.
"""

import argparse
import json
import statistics
import sys

import common

BENCH = "mlp_small"
MODES = ("eager", "fused", "graph", "compile", "reduce-overhead")
LOSS_TOLERANCE = 1e-3


def build(torch, mode):
    """(step, loss_of): step() trains once, loss_of() is the loss now."""
    spec = common.MLP[BENCH]
    layers, x, target = common.mlp_numbers(BENCH)
    modules = []
    for i, (weight, bias) in enumerate(layers):
        linear = torch.nn.Linear(spec["sizes"][i], spec["sizes"][i + 1])
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight).view(spec["sizes"][i], -1).t())
            linear.bias.copy_(torch.tensor(bias))
        modules += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*modules[:-1]).cuda()
    x = torch.tensor(x).view(spec["batch"], -1).cuda()
    target = torch.tensor(target).cuda()

    def loss_of():
        return torch.nn.functional.cross_entropy(model(x), target)

    compiled = loss_of
    if mode == "compile":
        compiled = torch.compile(loss_of, fullgraph=True, dynamic=False)
    elif mode == "reduce-overhead":
        compiled = torch.compile(loss_of, fullgraph=True, dynamic=False, mode="reduce-overhead")
    optimizer = torch.optim.SGD(
        model.parameters(), lr=common.LEARNING_RATE, fused=mode in ("fused", "compile", "reduce-overhead")
    )

    def step():
        loss = compiled()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    if mode != "graph":
        return step, loss_of

    # The steps before the capture count as training. Gradients made during it lie in the graph's
    # memory and are overwritten by every replay.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss_of().backward()
        optimizer.step()
    return graph.replay, loss_of


def measure(path, window_s, modes):
    try:
        import torch
    except ImportError:
        print("SKIPPED: python3 has no torch")
        return 77
    if not torch.cuda.is_available():
        print("SKIPPED: torch sees no GPU")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    failed = []
    with open(path, "a", encoding="utf-8") as out:
        for mode in modes:
            try:
                step, loss_of = build(torch, mode)
                for _ in range(common.CHECK_STEPS - (3 if mode == "graph" else 0)):
                    step()
                check = loss_of().item()
                us, calls = common.windows(step, torch.cuda.synchronize, window_s, count=3)
            except Exception as e:  # a mode that this torch cannot do is a row less, said aloud
                print(f"torch {mode} FAILED: {type(e).__name__}: {e}", file=sys.stderr)
                failed.append(mode)
                continue
            row = common.row(
                BENCH, f"torch {mode}", common.mlp_shape(BENCH), us, 1, versions, calls,
                flop=common.mlp_flop(BENCH), check_loss=check,
            )  # fmt: skip
            row["device"] = "cuda:0"
            row["machine"] = torch.cuda.get_device_name(0)
            row["peak_bytes"] = torch.cuda.max_memory_allocated()
            out.write(json.dumps(row) + "\n")
            print(f"{row['impl']:24} {row['median_us']:10.2f} us")
    return 1 if "eager" in failed else 0


def read(path):
    rows = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            rows.setdefault(row["impl"], []).append(row)
    return rows


def compare(ours_path, theirs_path):
    """Ratios are theirs / ours: above 1 we are faster; the worst pair of runs is what counts."""
    ((ours_name, ours),) = read(ours_path).items()
    theirs = read(theirs_path)
    versions = next(iter(theirs.values()))[0]["versions"]
    print("## Training step, mlp_small\n")
    print("784-512-512-10, batch 128, f32, cross-entropy, SGD; us a step, runs in the order ours,")
    print(f"theirs, theirs, ours. torch {versions['torch']}, CUDA {versions['cuda']}.\n")
    print("| who | median of the runs | theirs / ours | worst pair | loss after 20 steps |")
    print("|---|---|---|---|---|")
    mine = statistics.median(r["median_us"] for r in ours)
    want = ours[0]["check_loss"]
    print(f"| {ours_name} | {mine:.2f} | 1 | 1 | {want:.6f} |")
    good = True
    fastest = []
    for name, rows in theirs.items():
        median = statistics.median(r["median_us"] for r in rows)
        worst = min(r["median_us"] for r in rows) / max(r["median_us"] for r in ours)
        loss = rows[0]["check_loss"]
        same = abs(loss - want) <= LOSS_TOLERANCE * abs(want)
        good &= same
        if same:
            fastest.append(min(r["median_us"] for r in rows))
        note = "" if same else ", void: the losses disagree"
        print(f"| {name} | {median:.2f} | {median / mine:.2f} | {worst:.2f} | {loss:.6f}{note} |")
    if fastest:
        worst = min(fastest) / max(r["median_us"] for r in ours)
        print(f"\nAgainst the fastest: {worst:.2f} in the worst pair.\n")
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--compare", nargs=2, metavar=("OURS", "THEIRS"))
    parser.add_argument("--mode", choices=MODES, action="append", help="default: every mode")
    parser.add_argument("--window-s", type=float, default=1.0, help="seconds a window, 3 windows")
    args = parser.parse_args()
    if args.compare:
        return compare(*args.compare)
    if not args.json:
        parser.error("--json FILE or --compare OURS THEIRS")
    return measure(args.json, args.window_s, args.mode or MODES)


if __name__ == "__main__":
    sys.exit(main())
