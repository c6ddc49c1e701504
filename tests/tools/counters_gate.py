#!/usr/bin/env python3
"""What the default variants of all contracts ask of a GPU's memory, counted on simt, beside what
they may: no bank conflict, and, where memory is the limit, no more bytes than the contract has to
move.

Usage: counters_gate.py WT    (exit code 77: this build cannot count)
"""
import json
import os
import pathlib
import re
import subprocess
import sys

# Of a kernel that does fewer, memory is the limit: an H100 does 20 f32 operations a byte.
FLOPS_PER_BYTE = 20
MORE = 1.05
# Ends of rows between sectors of 32 bytes, of the odd sizes that the counts are taken at.
SLACK = 512

# contract: why its default has bank conflicts at some size.
CONFLICTS = {
    "argmax": "states of 20 bytes, merged once a block",
    "bincount": "all elements in nine counters: atomics on one address wait for each other",
    "cholesky": "roots down a tile's diagonal; else rows of a triangle, where lanes begin at "
                "different places",
    "conv_backward_weight": "tiles stored down their columns: every bank twice, 6 % of passes",
    "exponent_counts": "elements in some ten counters, of which there are eight copies a block",
    "fft": "butterflies of a half warp cross from one row to the next where rows have odd factors",
    "logsumexp": "states of two words, merged once a block",
    # Stored by other runs, the 16-bit kernels spill.
    "matmul": "f32 tiles stored across their rows: every bank twice, 3 to 6 % of the passes; "
              "16-bit runs of 64 bytes stored two at a time, 25 % (`pipelined` has none)",
    "scatter": "counters chosen by the indices",
    "sort": "a bitonic sort's steps of less than 16 elements",
}
# contract: why it moves more than its operands.
BYTES = {
    "attention_backward": "three kernels that read the operands each",
    "cdist_backward": "few points: `naive`",
    "channel_stats": "parts of a column's places, joined by a second kernel",
    "conv_backward_input": "weights laid out anew for the tiles",
    "conv_backward_weight": "sums of parts of the pixels, added by a second kernel",
    "conv_forward": "weights laid out anew for the tiles",
    "ctc_backward": "beta of all steps in a workspace",
    "embedding_backward": "the indices are sorted first",
    "image_erase": "boxes are drawn: what must be moved is that of their mean",
    "layer_norm_backward_params": "parts of the rows, added by a second kernel",
    "matmul": "split_k: sums of parts of k, added by a second kernel",
    "max_pool_gather": "four bytes of each sector of places are wanted",
    "multinomial": "sums of the weights in a workspace",
    "resize_backward": "a table of taps",
    "scatter": "the places are sorted first",
}


NAMES = pathlib.Path(__file__).resolve().parents[2] / "tools/wt/look/kernel_names.inc"


def functions():
    return set(re.findall(r'^{"(\w+)"', NAMES.read_text(), re.M))


def rows(wt, dtype):
    out = subprocess.run([wt, "bench", "counters", "--defaults", "--dtype", dtype, "--json"],
                         check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def complaints(row):
    name = row["bench"]
    if row["shared_units"] > 1.02 * row["shared_least"]:
        passes = row["shared_units"] / row["shared_requests"]
        least = row["shared_least"] / row["shared_requests"]
        yield name, CONFLICTS, f"bank conflicts: {passes:.2f} passes an access, not {least:.2f}"
    must = row["contract_bytes"]
    moved = row["read_bytes"] + row["written_bytes"]
    if row["contract_flops"] < FLOPS_PER_BYTE * must and moved > MORE * must + SLACK:
        yield name, BYTES, f"moves {moved:.0f} bytes where {must:.0f} must be"


def main():
    wt = sys.argv[1]
    if not os.path.exists(os.path.join(os.path.dirname(wt), "wt_race")):
        print("SKIPPED: no wt_race: this build has no instrumented kernels")
        return 77
    bad, used, counted = 0, set(), 0
    named = functions()
    for dtype in ("f32", "f16"):
        for row in rows(wt, dtype):
            counted += 1
            for title in row["kernels"].split("; "):
                function = re.split(r"[< \[]", title)[0].split("::")[-1]
                if function not in named:
                    bad += 1
                    print(f"FAILED: {function} is not in {NAMES.name}: tools/generators/kernel_names.py writes it")
            for name, known, what in complaints(row):
                used.add((name, id(known)))
                if name not in known:
                    bad += 1
                    print(f"FAILED: {name} {row['impl']} {dtype} {row['shape']}: {what}")
    for known in (CONFLICTS, BYTES):
        for name in known:
            if (name, id(known)) not in used:
                bad += 1
                print(f"FAILED: {name} needs no exception any more: {known[name]}")
    print(f"{counted} default variants counted")
    return 1 if bad or counted < 200 else 0


sys.exit(main())
