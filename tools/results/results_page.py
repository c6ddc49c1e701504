"""docs/gpu_results.md and README's paragraph, from what is kept of all runs."""

import re
import statistics
import textwrap

from kept_results import Page, gpu_steps, is_theirs, is_tuned
from prediction import COPY, Model, gpu_of

OFF = 1.3  # how far the model may be from what was measured, either way
COLUMNS = 118

STAND_INS = "What stands in for one, each for what it can show:"  # README goes on from there
NOTHING = f"**Nothing of `cuda` has run on a GPU yet.** {STAND_INS}"
INTRO = """\
# What GPUs have measured

Written by tools/gpu_results.py from all bench/results/*/gpu_gate.jsonl, which tools/gpu_gate.sh wrote
(docs/gpu_gate.md has the method). Figures are those of the rows; nothing is left out that failed.
"""


# --- words and numbers ---


def cell(value):
    return str(value).replace("|", "/").replace("\n", " ")


def line(*cells):
    return "| " + " | ".join(cell(c) for c in cells) + " |"


def table(head, rows):
    return "\n".join([line(*head), "|" + "---|" * len(head), *rows])


def micro(us):
    return "-" if not us else f"{us:.2f}" if us < 1000 else f"{us:.0f}"


def percent(v):
    return f"{100 * v:.0f} %" if v else "-"


def rate(row):
    if row.get("tflop_s"):
        return f"{row['tflop_s']:.1f} TFLOP/s"
    return f"{row['gb_s']:.1f} GB/s" if row.get("gb_s") else "-"


def several(names, most=12):
    """Names for a paragraph; a page has them all."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# --- what rows say ---


def wrong_rows(rows):
    """What is not right, whoever measured it."""
    return [r for r in rows if r.get("check") not in (None, "", "ok", "right")]


def name_of(row):
    return f"{row['bench']}:{row['impl']}" if is_tuned(row) else f"{row['impl']}" if row["bench"] == "check" else (
        f"{row['bench']} {row['impl']}")  # fmt: skip


def kernels(rows):
    """The fastest right variant of each contract, size and dtype at sizes that fill the GPU; where a
    contract has not come so far, at its smaller ones. Farthest from its ceiling first."""
    timed = [r for r in rows if r.get("check") == "right" and r.get("median_us")]
    real = {(r["bench"], r["dtype"]) for r in timed if is_real(r)}
    best = {}
    for r in timed:
        if not is_real(r) and (r["bench"], r["dtype"]) in real:
            continue
        key = (r["bench"], r["shape"], r["dtype"])
        if key not in best or r["median_us"] < best[key]["median_us"]:
            best[key] = r
    return sorted(best.values(), key=lambda r: (r.get("ratio") or 9, r["bench"], r["dtype"], r["shape"]))


def is_real(row):
    return str(row.get("size", "real")).startswith("real")


# --- the page ---


def document(devices):
    """None where there are no results."""
    if not devices:
        return None
    return "\n".join([INTRO, *("\n\n".join(section(d)) + "\n" for d in devices.values())])


def section(d):
    model = Model(d.model, d.rows)
    parts = [f"## {d.name}", runs(d), "### What failed and what was wrong", failures(d), "### Ceilings", ceilings(d),
             "### Training steps", steps(d), "### Kernels", *of_kernels(d, model)]  # fmt: skip
    return [p for p in parts if p]


def runs(d):
    """What ran, when, with what."""
    lines = []
    for page in d.pages.values():
        mine = [r for r in d.rows if page.calls and r.get("run") == page.calls[0]]
        probe = next((r for r in mine if r.get("bench") == "probe"), {})
        done = "; ".join(f"{n}: {result.split(':')[0]}" for n, result in page.parts)
        driver = f"{probe.get('nvidia_driver', '-')}, CUDA {probe.get('driver', '-')}"
        commits = sorted({r["commit"] for r in mine if r.get("commit")})
        lines.append(line(", ".join(page.calls), driver, probe.get("host", "-"), " ".join(commits) or "-",
                          len(mine), done))  # fmt: skip
    return table(("calls", "driver", "host", "commit", "rows", "parts"), lines)


def failures(d):
    """What the gate's pages name, and each row that is not right."""
    found = []
    for page in d.pages.values():
        found += [f"- {page.calls[0] if page.calls else '?'}: {f}" for f in page.failed]
    for r in wrong_rows(d.rows):
        found.append(f"- **{cell(name_of(r))}** {r.get('dtype')} {cell(r.get('shape'))}: {cell(r['check'])}")
    for name in gpu_steps.disagreeing(d.rows):
        found.append(f"- **{name}**: losses after the same steps differ from PyTorch's: its ratios are void")
    left = [n for page in list(d.pages.values())[:1] for n, result in page.parts if result.startswith(("left", "SKIPPED"))]
    text = "\n".join(dict.fromkeys(found)) or "Nothing that ran."
    return text + (f"\n\nNot run, or not to the end: {', '.join(left)}." if left else "")


def ceilings(d):
    rows = [r for r in d.rows if str(r.get("bench", "")).startswith("ceiling_")]
    if not rows:
        return "Not measured."
    gpu = gpu_of(d.name)
    said = f"\n\nFor a copy the model takes {COPY[gpu]:,} GB/s on an {gpu}." if gpu else ""
    return table(("what", "how", "size", "dtype", "median us", "rate"),
                 [line(r["bench"][8:], r.get("impl"), r.get("shape"), r.get("dtype"), micro(r.get("median_us")), rate(r))
                  for r in rows]) + said  # fmt: skip


def steps(d):
    if not gpu_steps.of_steps(d.rows):
        return "Not measured."
    theirs = next((r["versions"] for r in d.rows if is_theirs(r) and r.get("versions")), {})
    who = f"PyTorch {theirs.get('torch')}, CUDA {theirs.get('cuda')}. " if theirs else "PyTorch did not run. "
    return (who + "In turns ours, theirs, theirs, ours; ratios are theirs over our fastest, above 1 we are faster; the "
            "worst pair is\ntheir fastest turn over our slowest.\n\n" + gpu_steps.table(d.rows))  # fmt: skip


def of_kernels(d, model):
    rows = kernels(d.rows)
    if not rows:
        return ["Not timed."]
    lines, off, unknown = [], [], []
    for r in rows:
        said = model.of(r)
        factor = said[1] / said[0]["fraction"] if said else None
        shape = r["shape"] if is_real(r) else f"{r['shape']} (not the full size)"
        of = f"{percent(r.get('ratio'))} {r.get('bound') or ''}".strip()
        lines.append(line(r["bench"], shape, r["dtype"], r["impl"], micro(r["median_us"]), of,
                          percent(said[0]["fraction"]) if said else "no prediction",
                          f"{factor:.2f}" if said else "-"))  # fmt: skip
        if said and not 1 / OFF <= factor <= OFF:
            off.append((abs(factor_log(factor)), line(
                r["bench"], r["impl"], r["dtype"], shape, said[0]["kernel"], percent(said[1]),
                f"{percent(said[0]['fraction'])} {said[0]['bound']}", f"{factor:.2f}")))  # fmt: skip
        if not said:
            unknown.append(f"{r['bench']}:{r['impl']}")
    out = ["The fastest right variant of each, farthest from its ceiling first. `of ceiling` is the least time that the "
           "ceilings\nallow over the median. The prediction is of `wt bench model` (docs/gpu_model.md).",
           table(("contract", "shape", "dtype", "variant", "median us", "of ceiling", "predicted", "measured / predicted"),
                 lines)]  # fmt: skip
    return out + ["### Where the model was wrong", where_wrong(d, len(rows), off, unknown)]


def factor_log(factor):
    return max(factor, 1 / factor)


def where_wrong(d, count, off, unknown):
    if not d.model:
        why = f"`wt bench model` has no {d.name}." if not gpu_of(d.name) else "`wt bench model` was not asked."
        return "Nothing was predicted: " + why
    predicted = count - len(unknown)
    text = f"Of {predicted} rows with a prediction {len(off)} are off by more than {OFF} either way, the farthest first."
    if predicted:
        text += " A product's\nfraction is here of the GPU's peak, as the model has it."
    if off:
        ordered = [t for _, t in sorted(off, key=lambda o: (-o[0], o[1]))]
        text += "\n\n" + table(("contract", "variant", "dtype", "shape", "kernel", "measured", "predicted, bound",
                                "measured / predicted"), ordered)  # fmt: skip
    if unknown:
        names = sorted(set(unknown))
        text += (f"\n\nNo prediction, since no single kernel of the model's table stands for the variant ({len(unknown)} "
                 f"rows):\n" + "\n".join(textwrap.wrap(" ".join(names), COLUMNS, break_on_hyphens=False)))  # fmt: skip
    return text


# --- README ---


def paragraph(devices):
    """What stands between README's two comments."""
    if not devices:
        return NOTHING
    texts = [textwrap.fill(of_device(d), COLUMNS, break_long_words=False, break_on_hyphens=False)
             for d in devices.values()]  # fmt: skip
    more = f"docs/gpu_results.md has all figures, what failed first. {STAND_INS}"
    return "\n\n".join([*texts, more])


def of_device(d):
    page = next(iter(d.pages.values()), Page(""))
    probe = next((r for r in reversed(d.rows) if r.get("bench") == "probe"), {})
    when = page.calls[-1].split(" ")[0] if page.calls else "?"
    said = [f"**`cuda` on an {d.name}** ({when}, driver {probe.get('nvidia_driver', '-')}, commit {probe.get('commit')}):"]
    said += [s for s in (of_values(d), of_steps(d), of_times(d), of_failures(d, page)) if s]
    return said[0] + " " + "; ".join(said[1:]) + "."


def of_values(d):
    checked = [r for r in d.rows if r.get("bench") == "check"]
    names = {r["impl"].split(":")[0] for r in checked}
    bad = {r["impl"].split(":")[0] for r in wrong_rows(checked)}
    return f"{len(names) - len(bad)} of {len(names)} contracts agree with the cpu" if names else "values were not compared"


def of_steps(d):
    """Our fastest beside PyTorch's fastest, the worst pair of each."""
    found = []
    for text in re.findall(r"^- (\w+ \w+): .*?, ([\d.]+) in the worst pair$", gpu_steps.table(d.rows), re.M):
        found.append(f"{text[0]} {text[1]}")
    return f"whole steps, PyTorch's fastest time over ours in the worst pair: {several(found)}" if found else ""


def of_times(d):
    ratios = [r["ratio"] for r in kernels(d.rows) if r.get("ratio")]
    if not ratios:
        return ""
    return f"{len(ratios)} kernels timed, half of them above {100 * statistics.median(ratios):.0f} % of their ceiling"


def of_failures(d, page):
    wrong = sorted({name_of(r) for r in wrong_rows(d.rows)})
    void = [f"the losses of {n}" for n in gpu_steps.disagreeing(d.rows)]
    named = [re.sub(r"^(\w+: \*\*[^*]+\*\*).*", r"\1", f).replace("**", "") for f in page.failed]
    known = {w.split(":")[0] for w in wrong}
    named = [n for n in named if n.split(": ")[-1].split(":")[0] not in known]
    every = wrong + void + named
    return f"wrong or failed: {several(every)}" if every else "nothing that ran failed"
