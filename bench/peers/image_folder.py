"""Folders of JPEG files beside PyTorch, in one run: `wt bench loader --images` and PyTorch's program
take turns (A B B A) over the same files, and the median epoch of each counts.

    bench/peers/.venv/bin/python bench/peers/image_folder.py build/release/wt FILE.jpg ... [--copies 60]
        [--side 224] [--epochs 3] [--workers 0 1 2] [--output FILE]

Every file becomes a class of `copies` links. What both do with an image: decode it, resize its shorter
side, cut the middle, u8 batches of 32 in shuffled order, nothing done with them. PyTorch's ways:
"PIL", torchvision's ImageFolder as its documentation has it, and "io", the same folder with
torchvision.io's decoder and transforms of tensors. The ratio is PyTorch's time / ours.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

BATCH = 32


def peer(root, side, epochs, workers):
    """Prints a JSON line a way and number of workers."""
    import torch
    import torchvision
    from torch.utils.data import DataLoader
    from torchvision.io import ImageReadMode, read_image
    from torchvision.transforms import v2

    torch.set_num_threads(1)  # of the transforms; workers have one each in any case
    shape = [v2.Resize(side, antialias=True), v2.CenterCrop(side)]
    ways = {
        "PIL": {"transform": v2.Compose([*shape, v2.PILToTensor()])},
        "io": {"transform": v2.Compose(shape), "loader": lambda p: read_image(p, ImageReadMode.RGB)},
    }
    for way, arguments in ways.items():
        folder = torchvision.datasets.ImageFolder(root, **arguments)
        for n in workers:
            torch.manual_seed(1)
            loader = DataLoader(folder, BATCH, shuffle=True, num_workers=n, persistent_workers=n > 0)
            levels = labels = 0.0
            for x, y in loader:  # also the warm-up
                levels += x.double().mean().item() * len(y)
                labels += y.sum().item()
            us = []
            for _ in range(epochs):
                begin = time.perf_counter()
                for _ in loader:
                    pass
                us.append((time.perf_counter() - begin) * 1e6)
            print(json.dumps({
                "bench": "loader", "impl": f"torch {way} workers {n}", "dtype": "u8",
                "shape": f"{len(folder)} 3x{side}x{side} b{BATCH}", "epochs_us": us,
                "median_us": statistics.median(us),
                "images_s": len(folder) / statistics.median(us) * 1e6,
                "check_loss": (levels + labels) / len(folder),
                "versions": {"torch": torch.__version__, "torchvision": torchvision.__version__},
            }), flush=True)


def lines_of(command):
    out = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def versions():
    import PIL
    import torch
    import torchvision
    from PIL import features

    return (f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__} "
            f"with libjpeg-turbo {features.version('libjpeg_turbo')}")


def compare(args):
    numbers = [str(n) for n in args.workers]
    with tempfile.TemporaryDirectory() as root:
        for file in args.files:
            folder = pathlib.Path(root) / pathlib.Path(file).stem
            folder.mkdir()
            for k in range(args.copies):
                (folder / f"{k:04}.jpg").symlink_to(pathlib.Path(file).resolve())
        ours = [args.wt, "bench", "loader", "--json", "--images", root, "--side", str(args.side),
                "--epochs", str(args.epochs), "--batch", str(BATCH), "--workers", *numbers]
        theirs = [sys.executable, __file__, "--peer", root, "--side", str(args.side),
                  "--epochs", str(args.epochs), "--workers", *numbers]
        rows = {}
        for turn in ("A", "B", "B", "A"):
            for command in ([ours, [*ours, "--fast-downscale"]] if turn == "A" else [theirs]):
                for row in lines_of(command):
                    rows.setdefault(row["impl"], []).append(row)
    n = args.copies * len(args.files)
    say = [
        f"{n} images: {args.copies} times each of {', '.join(pathlib.Path(f).name for f in args.files)}; "
        f"to 3 x {args.side} x {args.side}, batches of {BATCH}",
        f"{versions()}; {platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"load average {os.getloadavg()[0]:.1f} at the end",
        "",
        f"{'':34}{'images/s':>10}{'of both turns':>18}{'mean level':>12}",
    ]
    speed = {}
    for impl, turns in rows.items():
        both = [n / r["median_us"] * 1e6 for r in turns]
        speed[impl] = statistics.mean(both)
        check = turns[0]["check_loss"] - (len(args.files) - 1) / 2  # without the mean label
        say.append(f"{impl:34}{speed[impl]:10.0f}{min(both):9.0f} -{max(both):7.0f}{check:12.3f}")
    say.append("")
    for w in numbers:
        best = max(speed[f"torch {way} workers {w}"] for way in ("PIL", "io"))
        exact = speed[f"warptape ImageFolder workers {w}"]
        fast = speed[f"warptape ImageFolder fast workers {w}"]
        say.append(f"workers {w}: {exact / best:.2f} of PyTorch's faster way, "
                   f"{exact / speed[f'torch PIL workers {w}']:.2f} of PIL; with fast_downscale {fast / best:.2f}")
    text = "\n".join(say)
    print(text)
    if args.output:
        pathlib.Path(args.output).write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wt", nargs="?")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--peer", help="a folder: the peer's own part")
    parser.add_argument("--copies", type=int, default=60)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output")
    args = parser.parse_args()
    if args.peer:
        peer(args.peer, args.side, args.epochs, args.workers)
    elif args.wt and args.files:
        compare(args)
    else:
        parser.error("WT and FILE.jpg")


main()
