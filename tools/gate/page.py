"""OUTDIR/gpu_gate.md: what a call has found so far, written again after every item."""

import os

import steps
from journal import lines_of

FILES = ("gpu_gate.md", "gpu_gate.jsonl", "gpu_gate_before.jsonl", "gpu_gate.log", "gpu_gate_state.jsonl",
         "tune.tsv", "tune.html", "ncu.csv")  # fmt: skip
MOST_ROWS = 400


def replace(path, text):
    """The file is the old or the new one, never half of it."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def write_words(gate, text):
    replace(gate.path("gpu_gate.md"), f"# GPU gate\n\n{text}\n")


def write(gate):
    rows = lines_of(gate.rows)
    parts = [head(gate), bad(gate), table_of_parts(gate), machine(rows), ceilings(rows), training(rows),
             dispatched(rows), kernels(rows)]  # fmt: skip
    replace(gate.path("gpu_gate.md"), "\n\n".join(p for p in parts if p) + "\n")


def head(gate):
    calls = [e["call"] for e in gate.journal.events if "call" in e]
    emulated = "\n\n**Emulated: a rehearsal. Nothing here was measured on a GPU.**" if gate.options.emulator else ""
    return f"# GPU gate\n\n{', '.join(calls)}\n\n{gate.probe}{emulated}"


def bad(gate):
    """First what is wrong, by name."""
    from parts import PARTS  # these write pages

    lines = []
    for p in PARTS:
        for name, e in gate.journal.items(p.name).items():
            if e["result"].startswith("FAILED"):
                lines.append(f"- {p.name}: **{name}**: {cell(e['result'][8:])}")
        result = gate.journal.result(p.name)
        if result and result.startswith("FAILED") and not any(line.startswith(f"- {p.name}: ") for line in lines):
            lines.append(f"- {p.name}: {cell(result[8:])}")
    return "## What failed\n\n" + ("\n".join(lines) if lines else "Nothing so far.")


def table_of_parts(gate):
    from parts import PARTS

    lines = ["| part | result | seconds |", "|---|---|---|"]
    for p in PARTS:
        result, items = gate.journal.result(p.name), gate.journal.items(p.name)
        if result is None:
            result = f"left, {len(items)} done" if items or gate.journal.seconds(p.name) else "left"
        took = sum(e.get("took", 0) + (0 if "item" in e else e.get("spent", 0))
                   for e in gate.journal.events if e.get("part") == p.name)  # fmt: skip
        lines.append(f"| {p.name} | {cell(result)} | {took:.0f} |")
    return "\n".join(lines)


def cell(text):
    return str(text).replace("|", "/").replace("\n", " ")


def last_of(rows, key=("bench", "impl", "shape", "dtype")):
    """Of rows that were measured more than once the last one."""
    found = {}
    for r in rows:
        found[tuple(r.get(k) for k in key)] = r
    return list(found.values())


def machine(rows):
    found = [r for r in rows if r.get("bench") == "probe"]
    if not found:
        return ""
    skip = {"bench", "impl", "device", "shape", "dtype"}
    lines = [f"| {k} | {cell(v)} |" for k, v in found[-1].items() if k not in skip and v not in (None, "")]
    return "## Machine\n\n| what | |\n|---|---|\n" + "\n".join(lines)


def ceilings(rows):
    found = last_of(r for r in rows if str(r.get("bench", "")).startswith("ceiling"))
    if not found:
        return ""
    lines = []
    for r in found:
        rate = (f"{r['tflop_s']:.1f} TFLOP/s" if r.get("tflop_s") else f"{r['gb_s']:.1f} GB/s"
                if r.get("gb_s") else "-")  # fmt: skip
        lines.append(f"| {r['bench'][8:]} | {r.get('impl') or ''} | {r.get('shape')} | {r.get('dtype')} | "
                     f"{micro(r.get('median_us'))} | {rate} |")  # fmt: skip
    return ("## Ceilings\n\n| what | how | size | dtype | median us | rate |\n|---|---|---|---|---|---|\n"
            + "\n".join(lines))  # fmt: skip


def micro(us):
    return "-" if not us else f"{us:.2f}" if us < 1000 else f"{us:.0f}"


def training(rows):
    peers = steps.gpu_steps
    return "## Training steps\n\n" + peers.table(rows) if peers.of_steps(rows) else ""


def dispatched(rows):
    found = last_of(r for r in rows if r.get("bench") == "dispatch_add")
    lines = [f"| {r['impl']} | {micro(r['median_us'])} |" for r in found]
    return "## Queueing an add of one element\n\n| who | host us |\n|---|---|\n" + "\n".join(lines) if lines else ""


def kernels(rows):
    """The fastest right variant of each contract, size and dtype, farthest from its ceiling first."""
    best = {}
    for r in last_of(r for r in rows if r.get("check") == "right" and r.get("median_us")):
        key = (r["bench"], r["shape"], r["dtype"])
        if key not in best or r["median_us"] < best[key]["median_us"]:
            best[key] = r
    if not best:
        return ""
    found = sorted(best.values(), key=lambda r: r.get("ratio") or 9)
    lines = ["| contract | shape | dtype | fastest variant | median us | of ceiling |", "|---|---|---|---|---|---|"]
    for r in found[:MOST_ROWS]:
        of = f"{100 * r['ratio']:.0f} % {r.get('bound') or ''}" if r.get("ratio") else "-"
        lines.append(f"| {r['bench']} | {cell(r['shape'])} | {r['dtype']} | {r['impl']} | "
                     f"{micro(r['median_us'])} | {of} |")  # fmt: skip
    more = f"\n\n{len(found) - MOST_ROWS} more are in tune.tsv." if len(found) > MOST_ROWS else ""
    return "## Kernels\n\n" + "\n".join(lines) + more
