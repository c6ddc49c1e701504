#!/usr/bin/env python3
"""Writes kernels/dispatch/simt_tune.tsv: which variants `wt train` and the like take on simt.

    tools/generators/make_simt_tuning.py WT [FILE]

A training step of fashion's network and of charlm, at a batch of 32 on made up data, is run with
WT_BENCHMARK and one thread: every variant of every kernel is launched at the step's own arguments
and its processor time taken, the least of some launches. FILE is a tune file (kernels/dispatch/run_tune_file.h). For a kernel, dtype
and size it names the cheapest variant where that costs less than half of the one that ranks highest, which
is the work that the executor has with it and no accident of a clock; else the one that ranks highest. Kernels
without a size of the first kind are left out, and those whose sizes do not agree on a variant: which one a size
in between would get is luck. `median us` is 1, for times are not what is kept. What changed
and by how much is printed.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import usage

usage.answer(__doc__, least=1)

ROOT = pathlib.Path(__file__).resolve().parents[2]
WT = os.path.abspath(sys.argv[1])
FILE = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "kernels/dispatch/simt_tune.tsv")
RECIPES = ("fashion", "charlm")
FACTOR = 2  # that a variant has to be cheaper by
COLUMNS = "contract\tdtype\tsize\tshape\tbytes\tvariant\tverdict\tmedian us\tspread\tfraction\tof"


def profile(recipe, folder, steps, **environment):
    command = [WT, "profile", recipe, "--data", "synthetic", "--batch", "32", "--steps", str(steps)]
    command += ["--device", "simt", "--quiet", "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "OMP_NUM_THREADS": "1", **environment})


def ranked_highest(folder):
    """{(contract, bytes): variants that a step launches by rank}"""
    found = collections.defaultdict(set)
    for event in json.loads((folder / "trace.json").read_text())["traceEvents"]:
        args = event.get("args", {})
        if event.get("cat") == "kernel" and "variant" in args and args.get("bytes"):
            found[event["name"].split(":")[0].split(".")[-1], int(args["bytes"])].add(args["variant"])
    return found


def costs(path):
    """{(contract, dtype, bytes, arguments): {variant: microseconds}}"""
    found = collections.defaultdict(dict)
    for line in path.read_text().splitlines():
        f = line.split("\t")
        if len(f) == 11 and f[2].startswith("first use "):
            found[f[0], f[1], int(f[4]), f[2]][f[5]] = float(f[7])
    return found


def choose(recipe, here):
    """[(contract, dtype, bytes, recipe, variant, by rank, how many times cheaper)]"""
    by_rank, timed = here / recipe, here / f"{recipe}-timed"
    profile(recipe, by_rank, 1, WT_TUNE="off")
    rows = here / f"{recipe}.tsv"
    profile(recipe, timed, 1, WT_TUNE=str(rows), WT_BENCHMARK="1")
    highest, sums = ranked_highest(by_rank), {}
    for (contract, dtype, size, _), us in costs(rows).items():
        # Launches of one size differ in layout alone: what is good for all of them.
        known = sums.setdefault((contract, dtype, size), dict.fromkeys(us, 0.0))
        sums[contract, dtype, size] = {v: known[v] + us[v] for v in known if v in us}
    for (contract, dtype, size), us in sums.items():
        ranked = [v for v in highest[contract, size] if v in us]
        if not ranked:
            continue
        ranked = max(ranked, key=us.get)
        cheapest = min(us, key=us.get)
        factor = us[ranked] / us[cheapest]
        yield contract, dtype, size, recipe, cheapest if factor >= FACTOR else ranked, ranked, factor


def main():
    with tempfile.TemporaryDirectory() as here:
        found = [row for r in RECIPES for row in choose(r, pathlib.Path(here))]
    changed = {row[:2] for row in found if row[4] != row[5]}
    changed -= {row[:2] for row in found for other in found if row[:2] == other[:2] and row[4] != other[4]}
    rows = {}
    for contract, dtype, size, recipe, variant, by_rank, factor in found:
        if (contract, dtype) not in changed:
            continue
        if variant != by_rank:
            print(f"{contract} {dtype} {size} bytes, {recipe}: {by_rank} -> {variant}, {factor:.1f} times cheaper")
        rows[contract, dtype, size] = f"{contract}\t{dtype}\t{recipe}\tbatch 32\t{size}\t{variant}\tright\t1\t0\t0\t"
    lines = ["warptape tune 1", "device\tsimt", "driver\t", "runtime\t", "warptape\t", "date\t", "copy GB/s\t0"]
    lines += ["state\tcomplete", COLUMNS] + [rows[key] for key in sorted(rows)] + [f"end\t{len(rows)}"]
    FILE.write_text("\n".join(lines) + "\n")


main()
