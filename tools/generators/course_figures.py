#!/usr/bin/env python3
"""The pictures of docs/course/figures, drawn from files of bench/ and docs/ that are committed.

    course_figures.py             writes them
    course_figures.py --check     says which are not what their files say; exit code 1 if any

--root FOLDER takes another tree. No figure has a number that is not in the file which it names.
"""

import argparse
import html
import json
import math
import re
import sys
from pathlib import Path

WIDTH = 440
STYLE = """\
text{font:13px system-ui,sans-serif;fill:#1b2430}.soft{fill:#5b6675}.small{font-size:11px}
.axis{stroke:#c9d1da}.c0{fill:#1f6feb}.c1{fill:#c2410c}.c2{fill:#2f8a4c}.c3{fill:#8250df}.c4{fill:#8a6d00}.c5{fill:#6b7685}
.c6{fill:#b5327d}.l0{stroke:#1f6feb}.l1{stroke:#c2410c}.l2{stroke:#2f8a4c}.l3{stroke:#8250df}.line{fill:none;stroke-width:2}
@media (prefers-color-scheme:dark){text{fill:#e6ebf1}.soft{fill:#9aa5b4}.axis{stroke:#3a4655}.c0{fill:#6cb0ff}.c1{fill:#ff9d5c}
.c2{fill:#6fcf8d}.c3{fill:#c7a6ff}.c4{fill:#e0c04c}.c5{fill:#9aa5b4}.c6{fill:#ff8cc6}.l0{stroke:#6cb0ff}.l1{stroke:#ff9d5c}
.l2{stroke:#6fcf8d}.l3{stroke:#c7a6ff}}"""


class Picture:
    """Text and marks from top to bottom, for a column as wide as a phone."""

    def __init__(self, title, source):
        self.parts, self.y, self.title, self.source = [], 0, title, source
        self.words(title, size="")
        self.y += 4

    def words(self, text, x=0, size="soft small", anchor="start", dy=16):
        self.y += dy
        self.parts.append(
            f'<text x="{x}" y="{self.y}" class="{size}" text-anchor="{anchor}">{html.escape(text)}</text>'
        )

    def bar(self, label, value, text, full, mark=0, log_from=None):
        """A bar of `value`, as long as the picture for `full`."""
        share = (math.log10(value / log_from) / math.log10(full / log_from)) if log_from else value / full
        self.y += 19
        self.parts.append(
            f'<text x="0" y="{self.y}">{html.escape(label)}</text>'
            f'<text x="{WIDTH}" y="{self.y}" text-anchor="end">{html.escape(text)}</text>'
        )
        self.y += 5
        self.parts.append(
            f'<rect x="0" y="{self.y}" width="{max(1.0, share * WIDTH):.1f}" height="10" rx="2" class="c{mark}"/>'
        )
        self.y += 12

    def stack(self, label, text, shares):
        """One bar of parts; (share of 1, mark) each."""
        self.y += 19
        self.parts.append(
            f'<text x="0" y="{self.y}">{html.escape(label)}</text>'
            f'<text x="{WIDTH}" y="{self.y}" text-anchor="end" class="soft">{html.escape(text)}</text>'
        )
        self.y += 5
        x = 0.0
        for share, mark in shares:
            self.parts.append(
                f'<rect x="{x:.1f}" y="{self.y}" width="{share * WIDTH:.1f}" height="12" class="c{mark}"/>'
            )
            x += share * WIDTH
        self.y += 14

    def key(self, names, kind="c"):
        x = 0
        self.y += 20
        for mark, name in enumerate(names):
            wide = 26 + 7.5 * len(name)
            if x + wide > WIDTH:
                x, self.y = 0, self.y + 18
            self.parts.append(
                f'<rect x="{x}" y="{self.y - 9}" width="10" height="10" class="c{mark}"/>'
                f'<text x="{x + 15}" y="{self.y}" class="small">{html.escape(name)}</text>'
            )
            x += wide
        self.y += 4

    def lines(self, series, x_names, top, unit, height=170):
        """Series of values above names; `top` is the end of the axis, from 0."""
        left, right, begin = 44, WIDTH - 12, self.y + 14
        for part in range(5):
            value, y = top * part / 4, begin + height * (1 - part / 4)
            self.parts.append(
                f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="axis"/>'
                f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" class="soft small">{value:g}</text>'
            )
        step = (right - left) / (len(x_names) - 1)
        for at, name in enumerate(x_names):
            anchor = "middle" if 0 < at < len(x_names) - 1 else ("start" if at == 0 else "end")
            self.parts.append(
                f'<text x="{left + at * step:.1f}" y="{begin + height + 16}" text-anchor="{anchor}" '
                f'class="soft small">{html.escape(name)}</text>'
            )
        for mark, (_, values) in enumerate(series):
            points = " ".join(
                f"{left + i * step:.1f},{begin + height * (1 - v / top):.1f}" for i, v in enumerate(values)
            )
            self.parts.append(f'<polyline points="{points}" class="line l{mark}"/>')
        self.y = begin + height + 18
        self.words(unit)
        self.key([name for name, _ in series])

    def text(self):
        self.y += 6
        for line in self.source:
            self.words(line)
        tall = self.y + 8
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" width="{WIDTH}" height="{tall}" '
            f'role="img" aria-label="{html.escape(self.title)}">\n<!-- Written by tools/generators/course_figures.py. -->\n'
            f"<style>{STYLE}</style>\n" + "\n".join(self.parts) + "\n</svg>\n"
        )


def read(root, name):
    return Path(root, name).read_text()


def found(pattern, text, name):
    match = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    if not match:
        raise SystemExit(f"course_figures: {name} has no longer what a figure is of: {pattern}")
    return match


EPYC = "bench/results/amd-epyc-2-cores/"
XEON = "bench/results/intel-xeon-2-cores/"


def step_shares(root):
    name = XEON + "2026-11-30-model-steps-both-ways.md"
    text = " ".join(read(root, name).split())
    m = found(
        r"(\d+) % gradients and (\d+) % forward of its four linear layers, ([\d.]+) and ([\d.]+) % attention, "
        r"([\d.]+) % the optimizer, ([\d.]+) % GELU, ([\d.]+) % copies of transposed heads",
        text,
        name,
    )
    rows = zip(
        (
            "linear layers, backward",
            "linear layers, forward",
            "attention, backward",
            "attention, forward",
            "optimizer",
            "GELU",
            "copies of transposed heads",
        ),
        m.groups(),
        (1, 0, 1, 0, 2, 0, 5),
    )
    p = Picture("One step of GPT-2's block, f32, one thread: share of time", ["Intel Xeon, 2 cores.", name])
    for label, share, mark in rows:
        p.bar(label, float(share), share + " %", 60, mark)
    return p.text()


def watching(root):
    name = XEON + "2026-11-29-watched-step.txt"
    text = read(root, name)
    p = Picture("What watching costs: the step's time over a bare step's", ["Intel Xeon, 2 cores.", name])
    for mark, what in enumerate(("bare", "profiled", "recorded, N = 10", "examined")):
        ratio = found(rf"^watched_step gpt_small, {what} [^\n]* ([\d.]+)$", text, name)[1]
        p.bar(what, float(ratio), ratio, 1.2, 5 if mark == 0 else 0)
    return p.text()


def per_element(root):
    gates, kernels = EPYC + "2026-11-22-all-gates.txt", EPYC + "2026-11-22-kernels-cpu.txt"
    rows = [json.loads(line) for line in read(root, gates).splitlines() if line.startswith('{"bench')]
    adds = {r["impl"]: r["median_us"] for r in reversed(rows) if r["bench"] == "tape_add"}  # the first of each counts
    text = read(root, kernels)
    m = found(r"^add +vectorized +4096x4096 +[\d.]+ +([\d.]+) ", text, kernels)
    ours = float(m[1]) / 4096**2
    p = Picture("One addition of f32: microseconds an element", ["Logarithmic. AMD EPYC, medians.", gates, kernels])
    full = adds["torch eager"]
    for label, value, mark in (
        ("an operator an element, PyTorch eager", adds["torch eager"], 5),
        ("an operator an element, warptape", adds["warptape"], 1),
        ("one operator for 4096 x 4096, warptape", ours, 0),
    ):
        p.bar(label, value, f"{value:.2g}", full, mark, log_from=1e-4)
    return p.text()


def sass(root, names):
    """Rows of the table of machine code, by kernel."""
    name = "bench/sass/sm_90a.txt"
    lines = read(root, name).splitlines()
    columns = next(line for line in lines if line.startswith("kernel ")).split()
    rows = {}
    for line in lines:
        words = line.split()
        if words and words[0] in names:
            rows[words[0]] = dict(zip(columns, words))
    for wanted in names:
        if wanted not in rows:
            raise SystemExit(f"course_figures: {name} has no longer {wanted}")
    return name, rows


def packs(root):
    kernels = {"add<i32>": "add of i32: an element a load", "add<f32>": "add of f32: four a load"}
    name, rows = sass(root, kernels)
    p = Picture("Machine code of two additions of 4-byte elements (sm_90a)", [name])
    p.words("instructions a warp issues for each KiB that it moves", dy=14)
    for mark, (kernel, label) in enumerate(kernels.items()):
        p.bar(label, float(rows[kernel]["slots"]), rows[kernel]["slots"], 90, 1 - mark)
    p.words("KiB under way on a multiprocessor", dy=24)
    for mark, (kernel, label) in enumerate(kernels.items()):
        p.bar(label, float(rows[kernel]["flight"]), rows[kernel]["flight"], 70, 1 - mark)
    return p.text()


def mix(root):
    kernels = {
        "add<f32>": "add, f32",
        "softmax_warp<f32,4,32>": "softmax, f32, rows in registers",
        "softmax_warp<bf16,8,32>": "softmax, bf16, rows in registers",
        "matmul_mma<bf16,MmaShape<2,4,4>,false,false,false>": "product of bf16 tiles",
    }
    name, rows = sass(root, kernels)
    pipes = ["fma", "alu", "imad", "lsu", "control", "mma", "other"]
    p = Picture("Instructions of a turn, by pipe (sm_90a)", [name + ", column mix"])
    for kernel, label in kernels.items():
        counts = dict(part.split(":") for part in rows[kernel]["mix"].split(","))
        total = sum(map(int, counts.values()))
        shares = [(int(counts.pop(pipe, 0)) / total, mark) for mark, pipe in enumerate(pipes[:-1])]
        shares.append((sum(map(int, counts.values())) / total, 6))
        p.stack(label, f"{total} instructions", shares)
    p.key(pipes)
    return p.text()


def ranks_text(root):
    name = EPYC + "2026-11-26-ranks.txt"
    return name, read(root, name)


def all_reduce(root):
    name, text = ranks_text(root)
    p = Picture(
        "One all-reduce over 4 ranks that are threads: microseconds",
        ["AMD EPYC, 2 cores, medians of the first turn.", name],
    )
    first = found(r"^before\n(.*?)^after\n(.*?)^before", text, name)
    for at, size in enumerate(("1 KiB", "32 KiB", "1 MiB")):
        for mark, (when, rows) in enumerate((("before", first[1]), ("after", first[2]))):
            us = rows.splitlines()[at].split()[3]
            p.bar(f"{size}, {when}", float(us), us, 420, 1 - mark)
    return p.text()


def overlap(root):
    name, text = ranks_text(root)
    part = found(
        r"A bias in its weight's bucket.*?^after: overlap --batch 512 --layers 8 --latency 20 --bandwidth 1\n"
        r"computation alone +([\d.]+) ms.*?\ncommunication alone +([\d.]+) ms.*?\nstep +([\d.]+) ms.*?\n"
        r"of it waits \(exposed\) +([\d.]+) ms",
        text,
        name,
    )
    compute, communicate, step, exposed = part.groups()
    p = Picture(
        "A step of two ranks: milliseconds", ["AMD EPYC, 2 cores; wires of 20 us and 1 GB/s, modelled.", name]
    )
    p.bar("computation alone", float(compute), compute, 45, 0)
    p.bar("communication alone", float(communicate), communicate, 45, 1)
    p.bar(
        "both, one after the other (their sum)",
        float(compute) + float(communicate),
        f"{float(compute) + float(communicate):.3f}",
        45,
        5,
    )
    p.bar("the step, as it is", float(step), step, 45, 2)
    p.bar("of it: waiting for gradients", float(exposed), exposed, 45, 4)
    return p.text()


def scaling(root):
    name, text = ranks_text(root)
    rows = found(r"wt bench scaling --batch 512.*?efficiency\n(.*?)\n\n", text, name)[1].splitlines()
    p = Picture(
        "Weak scaling on 2 processors: efficiency in per cent",
        ["AMD EPYC, 2 cores, ranks are threads; wires modelled.", name],
    )
    ranks, buckets, replicated = [], [], []
    for row in rows:
        words = row.replace("%", " ").split()
        ranks.append(words[0])
        buckets.append(float(words[3]))
        replicated.append(float(words[-1]) if words[-1] != "-" else None)
    for rank, one, other in zip(ranks, buckets, replicated):
        p.bar(f"{rank} rank{'s' if rank != '1' else ''}, buckets", one, f"{one:g}", 100, 0)
        if other is not None:
            p.bar(f"{rank} ranks, one that copies and collects", other, f"{other:g}", 100, 1)
    return p.text()


def paper(root):
    name = "docs/distributed_model.md"
    text = read(root, name)
    sizes = ("1 KiB", "1024 KiB", "25 MiB", "1024 MiB")
    ring, tree = [], []
    for size in sizes:
        row = found(rf"^{size} +64 +(.*)$", text, name)[1].split()
        ring.append(float(row[1]))
        tree.append(float(row[3]))
    p = Picture("64 GPUs in 8 nodes, modelled, not measured: bus bandwidth", [name])
    p.lines([("ring", ring), ("tree", tree)], sizes, 400, "GB/s; along: bytes of the sum")
    return p.text()


def kept(root):
    name = "docs/course/runs/tape_fashion.json"
    run = json.loads(read(root, name))
    rows = [(".".join(filter(None, (n["module"], n["op"]))), n["saved_bytes"]) for n in run["nodes"]]
    p = Picture("What each node of a CNN keeps for backward: KiB", [run["command"], name])
    for label, size in rows:
        p.bar(label, size, f"{size / 1024:.1f}", max(size for _, size in rows), 0 if size else 5)
    return p.text()


def sectors(root):
    name = "docs/course/runs/counters_softmax.json"
    run = json.loads(read(root, name))
    rows = run["kernels"]
    p = Picture(
        f"softmax of {rows[0]['shape']}: sectors that its loads ask for", ["Counted on simt.", run["command"], name]
    )
    for row in rows:
        p.bar(
            f"{row['impl']}: {row['load_requests']:,} loads of a warp",
            row["load_units"],
            f"{row['load_units']:,}",
            max(r["load_units"] for r in rows),
            1 if row["impl"] == "naive" else 0,
        )
    return p.text()


FIGURES = {
    f.__name__: f
    for f in (step_shares, kept, watching, per_element, sectors, packs, mix, all_reduce, overlap, scaling, paper)
}


def figures(root, check):
    folder, bad = Path(root, "docs/course/figures"), []
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        path, text = folder / f"{name}.svg", draw(root)
        if check and (not path.is_file() or path.read_text() != text):
            bad.append(f"docs/course/figures/{name}.svg is stale: tools/generators/course_figures.py writes it")
        elif not check:
            path.write_text(text)
    bad += [
        f"docs/course/figures/{p.name} is no figure of the generator"
        for p in sorted(folder.glob("*"))
        if p.suffix != ".svg" or p.stem not in FIGURES
    ]
    print("\n".join(bad) if bad else f"{len(FIGURES)} figures {'are what their files say' if check else 'written'}")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", default=str(Path(__file__).resolve().parents[2]))
    args = parser.parse_args()
    return figures(args.root, args.check)


if __name__ == "__main__":
    sys.exit(main())
