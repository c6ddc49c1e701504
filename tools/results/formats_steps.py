"""bench/peers/model_steps.py: whole training steps of models by name beside PyTorch, with their goals.

Kept as it prints (tables, a heading for each number of threads), or as its --rows; words may stand before.
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers"))
import gpu_steps  # noqa: E402
from result_file import Result, reached, table  # noqa: E402

# PyTorch's fastest mode over ours, in f32, and our peak of memory over PyTorch's least.
GOALS = {"resnet18_cifar": 1.2, "gpt2_block": 1.1, "mobilenet_v2": 1.3, "pointnet": 1.2}
PEAK = 0.8

HEAD = re.compile(r"^## (\d+) threads?; load average ([\d.]+) before$")
END = re.compile(r"^- (\w+) (\w+): (.+?) beside PyTorch's fastest, (.+?): ([\d.]+), ([\d.]+) in the worst pair$")


def rows_of(f):
    return [json.loads(line) for line in f.lines if line.startswith('{"bench"')]


def is_steps(f):
    if any(map(HEAD.match, f.lines)):
        return True
    return bool(rows_of(f)) and all(row.get("bench") in gpu_steps.ALL_MODELS for row in rows_of(f))


def sections(f):
    """[(threads, the lines of its table)], of the tables where there are any."""
    if any(map(HEAD.match, f.lines)):
        out = []
        for number, line in enumerate(f.lines, 1):
            head = HEAD.match(line)
            if head:
                out.append((int(head[1]), []))
            elif out and line:
                if not line.startswith("|") and not END.match(line):
                    f.fail(f"no line of model_steps.py: {line}", number)
                out[-1][1].append(line)
        return out
    by = {}
    for row in rows_of(f):
        if not row.get("threads"):
            f.fail(f"a row of {row['bench']}, {row.get('impl')}, does not say its threads")
        by.setdefault(row["threads"], []).append(row)
    return [(n, gpu_steps.table(rows).splitlines()) for n, rows in sorted(by.items())]


def steps(f):
    lines, goals, count = [], [], 0
    for threads, text in sections(f):
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in text if line.startswith("|")]
        rows = [c for c in cells if c[0] != "model" and not c[0].startswith("---")]
        if any(len(c) != 8 for c in rows):
            f.fail(f"a table of another form, {threads} threads")
        count += len(rows)
        ends = {(e[1], e[2]): e for e in map(END.match, text) if e}
        for key in dict.fromkeys((c[0], c[1]) for c in rows):
            line, mine = of_model(key, threads, ends.get(key), [c for c in rows if (c[0], c[1]) == key])
            lines.append(line)
            goals += mine
    if not lines:
        f.fail("no row of a model")
    head = ("model", "precision", "threads", "PyTorch / ours", "worst pair", "goal", "peak / PyTorch's", "goal")
    command = "bench/peers/.venv/bin/python bench/peers/model_steps.py build/release/wt"
    return Result(f, "steps", [table(head, lines)], count, goals, f.commands() or [command])


def of_model(key, threads, end, rows):
    """The line of a model, and whether each of its goals is reached."""
    void = [c[2] for c in rows if "void" in c[6]]
    if not end:
        why = "void: the losses disagree" if void else "nothing of both sides"
        return (*key, threads, why, "-", "-", "-", "-"), []
    ratio, worst, goals = float(end[5]), float(end[6]), []
    wanted = GOALS.get(key[0]) if key[1] == "f32" else None
    words = "-"
    if wanted:
        goals.append(ratio >= wanted and worst > 1)
        words = f"{wanted}: {reached(goals[-1])}"
    peak, peak_words = peak_ratio(end[3], [c for c in rows if c[2] not in void]), "-"
    if wanted and peak is not None:
        goals.append(peak <= PEAK)
        peak_words = f"at most {PEAK}: {reached(goals[-1])}"
    with_void = f"; void: {', '.join(void)}" if void else ""
    return (*key, threads, f"{end[5]} ({end[4]}{with_void})", end[6], words,
            "-" if peak is None else f"{peak:.2f}", peak_words), goals  # fmt: skip


def peak_ratio(mine, rows):
    """Of the variant that is timed, beside the PyTorch mode that takes least; None where one has no figure."""
    ours = [float(c[7]) for c in rows if c[2] == mine and c[7] != "-"]
    theirs = [float(c[7]) for c in rows if c[2].startswith("torch") and c[7] not in ("-", "0")]
    return ours[0] / min(theirs) if ours and theirs else None
