"""docs/benchmarks.md, from every file of bench/results."""

import os
import re
import textwrap

import formats_generation
import formats_other
import formats_own
import formats_peers
import formats_steps
from result_file import File, Unreadable, table

COLUMNS = 118
# (does a file have this format, what it says), tried in this order.
FORMATS = (
    (formats_other.is_gpu_gate, formats_other.gpu_gate),
    (formats_other.is_modelled, formats_other.modelled),
    (formats_peers.is_gate, formats_peers.gate),
    (formats_peers.is_operators, formats_peers.operators),
    (formats_peers.is_loader, formats_peers.loader),
    (formats_peers.is_image_folder, formats_peers.image_folder),
    (formats_own.is_kernels, formats_own.kernels),
    (formats_own.is_ranks, formats_own.ranks),
    (formats_own.is_watched, formats_own.watched),
    (formats_own.is_simt_steps, formats_own.simt_steps),
    (formats_own.is_emulator, formats_own.emulator),
    (formats_other.is_race, formats_other.race),
    (formats_other.is_learn, formats_other.learn),
    (formats_other.is_counted, formats_other.counted),
    (formats_generation.is_generation, formats_generation.generation),
    (formats_steps.is_steps, formats_steps.steps),
)
SUBJECTS = {
    "steps": "Whole training steps of models by name",
    "generation": "Text token by token",
    "overhead": "Overhead and steps",
    "kernels": "Kernels",
    "operators": "Operators",
    "loader": "Loaders",
    "ranks": "Ranks",
    "memory": "Memory",
    "learned": "Learned results",
    "emulation": "Devices without a GPU",
    "gpu": "The GPU gate",
    "checks": "Checks that count",
    "modelled": "Modelled, not measured",
}
INTRO = """\
# What was measured

Written by `tools/benchmarks.py --write` from all files of bench/results, each of which has its rows in full. What has no
file there was not measured and is not here.

A ratio is the other's time over ours, from one run on one machine, both by turns: above 1 we are faster. Of each peer
the fastest mode counts. Behind it, in brackets, is the worst pair of turns. A goal of a ratio is reached where the medians
reach it and the worst pair is above 1. On a machine that also did other work (load average 0.3 or more) figures are
provisional: load averages are what the files say of themselves. An older file stays as it was measured.
"""
MODELLED = """\
No figure of this section was measured: they are what the machine code of the kernels allows by docs/gpu_model.md."""


def results(root):
    """Of every file, in the page's order; Unreadable names all files that no format fits."""
    base = os.path.join(root, "bench", "results")
    found, bad = [], []
    for folder, folders, names in os.walk(base):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                found.append(result(os.path.relpath(path, base).replace(os.sep, "/"), path))
            except Unreadable as e:
                bad.append(str(e))
    if bad:
        raise Unreadable("\n".join(bad))
    return found


def result(name, path):
    try:
        with open(path, encoding="utf-8") as f:
            file = File(name, f.read())
    except UnicodeDecodeError:
        raise Unreadable(f"bench/results/{name}: not a text") from None
    for fits, made in FORMATS:
        if fits(file):
            try:
                return made(file)
            except (KeyError, TypeError, ValueError) as e:
                file.fail(f"{made.__name__}: {type(e).__name__}: {e}")
    return file.fail("a format that tools/benchmarks.py does not know: tools/results/benchmarks_page.py has them")


# --- words ---


def link(r):
    return f"[{r.file.path.rpartition('/')[2]}](../bench/results/{r.file.path})"


def wrapped(text):
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def machine_name(machine, found):
    """As the files of the folder write it: amd-epyc-2-cores is AMD EPYC, 2 cores."""
    pattern = r"\b" + r"\W+".join(map(re.escape, machine.split("-"))) + r"\b"
    names = (re.search(pattern, r.file.text, re.I) for r in found)
    return next((re.sub(r"\s+", " ", n[0]) for n in names if n), machine)


def goals_of(r):
    return f"{sum(r.goals)} of {len(r.goals)}" if r.goals else "-"


def contents(found):
    lines = []
    for r in found:
        what = SUBJECTS[r.subject] if not r.modelled else "Modelled"
        lines.append((what, link(r), r.file.date, "-" if r.rows is None else r.rows, goals_of(r)))
    return table(("subject", "file", "date", "rows", "goals reached"), lines)


def entry(r):
    head = [f"**{link(r)}**"] + [r.file.date] * (r.file.date != "-")
    head += [f"commit {r.file.commit}"] * bool(r.file.commit)
    if not r.modelled:
        head += [f"load average {r.file.load}"] * bool(r.file.load)
    text = wrapped(", ".join(head) + "." + (f" {r.note}" if r.note else ""))
    parts = [text]
    if r.commands:
        parts.append("\n".join("    " + c for c in r.commands))
    return "\n\n".join(parts + [s if s.startswith("|") or "\n" in s else wrapped(s) for s in r.says])


def by_subject(found):
    parts = []
    for subject, words in SUBJECTS.items():
        mine = sorted((r for r in found if r.subject == subject), key=lambda r: r.file.path)
        mine.sort(key=lambda r: r.file.date, reverse=True)
        if mine:
            parts += [f"### {words}", *map(entry, mine)]
    return parts


def document(root):
    found = results(root)
    measured = [r for r in found if not r.modelled]
    parts = [INTRO.rstrip(), "## All files", contents([*measured, *(r for r in found if r.modelled)])]
    machines = sorted({r.file.machine for r in measured if r.file.machine})
    for machine in machines:
        mine = [r for r in measured if r.file.machine == machine]
        parts += [f"## {machine_name(machine, mine)}", *by_subject(mine)]
    counts = [r for r in measured if not r.file.machine]
    if counts:
        parts += ["## Counts, on any machine", *by_subject(counts)]
    modelled = [r for r in found if r.modelled]
    if modelled:
        parts += ["## Modelled, not measured", MODELLED, *map(entry, modelled)]
    return "\n\n".join(parts) + "\n"
