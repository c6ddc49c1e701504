#!/usr/bin/env python3
"""PyTorch's whole training steps on a device, and the comparison with ours (bench/steps/steps.h).

    gpu_steps.py --serve [--device cuda|cpu] [--scale real|small]
        says {"ready": true, ...}, then answers each line of standard input,
        {"model": .., "precision": .., "mode": .., "seconds": .., "windows": ..} and of a model by
        name "batch" and "image", with a row or with {"failed": why, ..}, until {"quit": true} or the end; `seconds`: a window
    gpu_steps.py --warm gpt:bf16,fashion:f32
        compiles these once, for later runs on this machine
    gpu_steps.py --losses
        the losses that tests/bench/steps_test.cpp holds ours against
    gpu_steps.py --compare ROWS.jsonl
        a Markdown table of ours and theirs; exit code 1 where losses disagree

Exit code 77: no torch, or no GPU. Modes: eager; captured, the step as one CUDA graph; compile,
the loss compiled; "compile captured", both; of pictures also "channels_last" before any of these.
Optimizers are fused, gradients set to None. On a cpu peak_bytes are its allocator's, from the
profiler: scratch that a library takes by itself is not in them.
"""

import argparse
import gc
import json
import math
import os
import statistics
import sys

import common

MODELS = ("gpt", "mlp_small", "charlm", "fashion")
PRECISIONS = ("f32", "tf32", "f16", "bf16")
ALL_MODELS = MODELS + common.NAMED_MODELS
MODES = ("eager", "captured", "compile", "compile captured")
WARM_UP = 3  # steps before a capture, which count as training
# Relative, of the losses after the same steps.
TOLERANCE = {"f32": 1e-3, "tf32": 3e-3, "f16": 1e-2, "bf16": 1e-2}


# --- training ---


class Training:
    """A network in one precision and mode, trained for CHECK_STEPS steps."""

    def __init__(self, torch, device, scale, model, precision, mode, batch=0, image=0,
                 steps=None):  # fmt: skip
        import gpu_models

        plain = mode.removeprefix("channels_last ")
        if model not in ALL_MODELS or precision not in PRECISIONS or plain not in MODES:
            raise ValueError(f"no {model} {precision} {mode}")
        if device == "cpu" and (precision == "tf32" or "captured" in mode):
            raise ValueError(f"{'tf32' if precision == 'tf32' else 'a captured step'} needs cuda")
        self.torch, self.device = torch, device
        self.name, self.precision, self.mode = model, precision, mode
        self.memory_before = torch.cuda.memory_allocated() if device == "cuda" else 0
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.made = gpu_models.make(model, scale, device, batch, image)
        if plain != mode:
            self.to_channels_last()
        self.parameters = list(self.made.model.parameters())
        name, options = self.made.optimizer
        if name == "AdamW" and "captured" in mode:
            options = {**options, "capturable": True}
        self.optimizer = getattr(torch.optim, name)(self.parameters, fused=True, **options)
        self.scaler = torch.amp.GradScaler(device) if precision == "f16" else None
        self.loss_of = self.loss
        if "compile" in mode:
            self.loss_of = torch.compile(self.loss, fullgraph=True, dynamic=False)
        self.once = self.eager_step
        if "captured" in mode:
            self.once = self.capture()
        done = WARM_UP if "captured" in mode else 0
        for _ in range((steps or check_steps(model)) - done):
            self.once()
        with torch.no_grad():
            self.check_loss = self.loss().item()

    def to_channels_last(self):
        if self.made.x.dim() != 4:
            raise ValueError(f"{self.name} has no pictures")
        form = {"memory_format": self.torch.channels_last}
        self.made = self.made._replace(model=self.made.model.to(**form), x=self.made.x.to(**form))

    def loss(self):
        torch, m = self.torch, self.made
        half = {"f16": torch.float16, "bf16": torch.bfloat16}.get(self.precision)
        with torch.autocast(self.device, dtype=half or torch.bfloat16, enabled=half is not None):
            return torch.nn.functional.cross_entropy(m.model(m.x), m.y)

    def eager_step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of()
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        if self.made.clip:
            if self.scaler:
                self.scaler.unscale_(self.optimizer)
            self.torch.nn.utils.clip_grad_norm_(self.parameters, self.made.clip)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def capture(self):
        cuda = self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(WARM_UP):
                self.eager_step()
        cuda.current_stream().wait_stream(side)
        self.graph = cuda.CUDAGraph()
        # Gradients made in a capture lie in the graph's memory; each replay overwrites them.
        self.optimizer.zero_grad(set_to_none=True)
        with cuda.graph(self.graph):
            self.eager_step()
        return self.graph.replay

    def measure(self, seconds, windows):
        torch, cuda = self.torch, self.device == "cuda"
        sync = torch.cuda.synchronize if cuda else lambda: None
        us, calls = common.windows(self.once, sync, seconds, count=windows)
        versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
        row = common.row(
            self.name, f"torch {self.mode}", self.made.shape, us, torch.get_num_threads(), versions,
            calls, flop=self.made.flop, check_loss=self.check_loss,
        )  # fmt: skip
        row["dtype"] = self.precision
        if cuda:
            row["device"] = "cuda:0"
            row["machine"] = torch.cuda.get_device_name(0)
            row["peak_bytes"] = torch.cuda.max_memory_allocated() - self.memory_before
        return row


def cpu_peak(torch, *request):
    """Bytes of tensors at most, from making the network on, as PyTorch's allocator counts them."""
    profile = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    )
    with profile:
        training = Training(torch, "cpu", *request, steps=3)
    del training
    totals = [0]
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            totals.append(totals[-1] + event.nbytes())
    return max(totals)


class Trainings:
    """Those of one network and precision stay, as long as half of the memory is free: each is asked
    for once a turn."""

    def __init__(self, torch, device, scale):
        self.torch, self.device, self.scale = torch, device, scale
        self.of, self.kept = None, {}

    def get(self, model, precision, mode, batch=0, image=0):
        wanted = (model, precision, batch, image)
        if self.of != wanted or (mode not in self.kept and self.is_short()):
            self.drop()
        self.of = wanted
        set_products(self.torch, precision)
        if mode not in self.kept:
            self.kept[mode] = Training(
                self.torch, self.device, self.scale, model, precision, mode, batch, image
            )
        return self.kept[mode]

    def measure(self, request):
        named = (request.get("batch", 0), request.get("image", 0))
        of = (request["model"], request["precision"], request["mode"], *named)
        row = self.get(*of).measure(float(request.get("seconds", 1)), int(request.get("windows", 3)))
        if self.device == "cpu" and request.get("peak"):
            row["peak_bytes"] = cpu_peak(self.torch, self.scale, *of)
        return row

    def is_short(self):
        if self.device != "cuda" or not self.kept:
            return False
        free, total = self.torch.cuda.mem_get_info()
        return free < total / 2

    def drop(self):
        self.of, self.kept = None, {}
        # The compiled functions of all networks are one function to the compiler, which gives up
        # after some of them.
        if "torch._dynamo" in sys.modules:
            self.torch._dynamo.reset()
        gc.collect()
        if self.device == "cuda":
            self.torch.cuda.empty_cache()


def check_steps(model):
    """After which losses are compared: in more of them a network with batch norm of few samples carries
    f32's roundings as far as the second digit (ResNet-18, PyTorch's two memory formats)."""
    return 1 if model in common.NAMED_MODELS else common.CHECK_STEPS


def set_products(torch, precision):
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def start(device, scale):
    """Trainings, or None: what is missing has been said."""
    try:
        import torch
    except ImportError:
        print("SKIPPED: python3 has no torch", flush=True)
        return None
    if device == "cuda" and not torch.cuda.is_available():
        print("SKIPPED: torch sees no GPU", flush=True)
        return None
    return Trainings(torch, device, scale)


# --- what is asked for ---


def answer(trainings, request):
    try:
        return trainings.measure(request)
    except Exception as e:  # what this torch cannot do is a row less, said aloud
        text = " ".join(str(e).split())[:300]
        failed = f"{type(e).__name__}: {text}"
    trainings.drop()
    return {**request, "failed": failed}


def serve(device, scale):
    # Compilers and libraries print what they like: that is no answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    trainings = start(device, scale)
    if not trainings:
        return 77
    os.dup2(2, 1)

    def say(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    torch = trainings.torch
    say({"ready": True, "torch": torch.__version__, "cuda": torch.version.cuda, "device": device})
    for line in sys.stdin:
        try:
            request = json.loads(line)
            assert isinstance(request, dict)
        except (ValueError, AssertionError):
            say({"failed": "no request: " + line.strip()[:100]})
            continue
        if request.get("quit"):
            break
        say(answer(trainings, request))
    return 0


def warm(device, scale, names):
    trainings = start(device, scale)
    if not trainings:
        return 77
    for name in names.split(","):
        model, _, precision = name.partition(":")
        request = {"model": model, "precision": precision, "mode": "compile", "seconds": 0.01}
        got = answer(trainings, {**request, "windows": 1})
        print(f"{name}: {got.get('failed', 'compiled')}", flush=True)
    return 0


def losses(device, scale):
    trainings = start(device, scale)
    if not trainings:
        return 77
    for model in MODELS:
        for precision in PRECISIONS:
            if device == "cpu" and precision == "tf32":
                continue
            got = trainings.get(model, precision, "eager").check_loss
            print(f'{{"{model}", "{precision}", {got:.9g}}},', flush=True)
    return 0


# --- comparison ---


def finite(loss):
    return isinstance(loss, (int, float)) and math.isfinite(loss)


def of_steps(rows):
    """{(model, precision): {impl: [row]}}, in the order of MODELS and PRECISIONS."""
    found = {}
    for row in rows:
        key = (row.get("bench"), row.get("dtype"))
        who = str(row.get("impl", "")).split(" ")[0]
        if key[0] in ALL_MODELS and key[1] in PRECISIONS and who in ("warptape", "torch"):
            if row.get("median_us"):
                found.setdefault(key, {}).setdefault(row["impl"], []).append(row)
    order = sorted(found, key=lambda k: (ALL_MODELS.index(k[0]), PRECISIONS.index(k[1])))
    return {key: found[key] for key in order}


def median(rows):
    return statistics.median(row["median_us"] for row in rows)


def best_of(impls, who):
    """The name of the fastest of ours or theirs, None without any."""
    names = [name for name in impls if name.startswith(who + " ")]
    return min(names, key=lambda name: median(impls[name]), default=None)


def wanted_loss(impls):
    """Of our fastest; without any of ours, of their first."""
    rows = impls[best_of(impls, "warptape") or next(iter(impls))]
    return rows[0].get("check_loss")


def agrees(rows, want, precision):
    """Whether every one of these rows has that loss."""
    got = [row.get("check_loss") for row in rows]
    if not finite(want) or not all(map(finite, got)):
        return False
    return all(abs(loss - want) <= TOLERANCE[precision] * abs(want) for loss in got)


def disagreeing(rows):
    """model:precision where losses after the same steps differ by more than TOLERANCE."""
    bad = []
    for (model, precision), impls in of_steps(rows).items():
        want = wanted_loss(impls)
        if not all(agrees(r, want, precision) for r in impls.values()):
            bad.append(f"{model}:{precision}")
    return bad


def line_of(key, name, impls):
    """A row of the table, and its worst pair (None: there is nothing to hold against)."""
    rows, mine = impls[name], best_of(impls, "warptape")
    ratio = worst = None
    if mine:
        ratio = median(rows) / median(impls[mine])
        worst = min(r["median_us"] for r in rows) / max(r["median_us"] for r in impls[mine])
    want = wanted_loss(impls)
    shown = next((r for r in rows if not agrees([r], want, key[1])), rows[0])
    loss = shown.get("check_loss")
    peak = rows[0].get("peak_bytes")
    cells = [
        *key, name, f"{median(rows):.1f}",
        "1" if name == mine else f"{ratio:.2f}" if mine else "-",
        f"{worst:.2f}" if mine and name.startswith("torch") else "-",
        f"{loss:.6f}" if finite(loss) else str(loss),
        f"{peak / 2**20:.0f}" if peak else "-",
    ]  # fmt: skip
    good = agrees(rows, want, key[1])
    if not good:
        cells[6] += ", void: the losses disagree"
    return "| " + " | ".join(cells) + " |", worst if good else None


def table(rows):
    """Markdown; ratios are theirs / our fastest: above 1 we are faster."""
    found = of_steps(rows)
    lines = [
        "| model | precision | who | median, us | theirs / ours | worst pair | loss after "
        f"{common.CHECK_STEPS} steps (by name 1) | peak, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ends = []
    for key, impls in found.items():
        worsts = {}
        for name in impls:
            text, worst = line_of(key, name, impls)
            lines.append(text)
            if worst is not None and name.startswith("torch"):
                worsts[name] = worst
        fair = {name: impls[name] for name in worsts}
        fastest, mine = best_of(fair, "torch"), best_of(impls, "warptape")
        if fastest:
            ratio = median(impls[fastest]) / median(impls[mine])
            ends.append(f"- {key[0]} {key[1]}: {mine} beside PyTorch's fastest, {fastest}: "
                        f"{ratio:.2f}, {min(worsts.values()):.2f} in the worst pair")  # fmt: skip
    return "\n".join(lines + ([""] + ends if ends else []))


def compare(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.startswith("{")]
    print("## Training steps\n")
    theirs = next((r for r in rows if str(r.get("impl", "")).startswith("torch")), {})
    if theirs.get("versions"):
        print("torch {torch}, CUDA {cuda}. ".format(**theirs["versions"]), end="")
    print("Ratios are theirs / our fastest, above 1 we are faster; losses may differ by "
          + ", ".join(f"{t:g} in {p}" for p, t in TOLERANCE.items()) + ", relative.\n")  # fmt: skip
    print(table(rows))
    return 1 if disagreeing(rows) else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--serve", action="store_true")
    what.add_argument("--warm", metavar="MODEL:PRECISION,...")
    what.add_argument("--losses", action="store_true")
    what.add_argument("--compare", metavar="ROWS.jsonl")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--scale", choices=("real", "small"), default="real")
    args = parser.parse_args()
    if args.compare:
        return compare(args.compare)
    if args.serve:
        return serve(args.device, args.scale)
    if args.warm:
        return warm(args.device, args.scale, args.warm)
    return losses(args.device, args.scale)


if __name__ == "__main__":
    sys.exit(main())
