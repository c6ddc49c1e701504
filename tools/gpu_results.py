#!/usr/bin/env python3
"""What tools/gpu_gate.sh has measured, as files that are committed.

    tools/gpu_results.py OUTDIR [--wt PROGRAM]   bench/results/<device>/ from the gate's folder, then the pages
    tools/gpu_results.py                         the pages alone, from all bench/results/<device>/
    tools/gpu_results.py --check                 exit code 1 where the pages are not what the results give

The pages are docs/gpu_results.md, which is there when there are results, and README.md between its marks.
Beside each figure lies what `wt bench model` predicted for the code that was measured (model.jsonl). Rows of a
second folder of the same device take the place of those of the same bench, impl, shape and dtype.

Exit code 2: a folder that holds no measurement of a GPU; nothing is written then.
"""

import argparse
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "gate"), os.path.join(HERE, "..", "bench", "peers")]
import gpu_steps  # noqa: E402
from journal import Journal, lines_of  # noqa: E402

ROWS, STATE, TUNE, MODEL = "gpu_gate.jsonl", "gpu_gate_state.jsonl", "tune.tsv", "model.jsonl"
BEGIN, END = "<!-- gpu: written by tools/gpu_results.py -->", "<!-- end of gpu -->"
OFF = 1.3  # a prediction that is off by more is listed
PEAK_TFLOP_S = 989  # of 16-bit products, dense: NVIDIA's datasheets of H100 (SXM) and H200
NONE_YET = (
    "**Nothing of `cuda` has run on a GPU yet.** What stands in for one, each for what it can show:"
)


class Refused(Exception):
    """A folder that nothing is taken from, and why."""


# --- what a folder holds ---


class Measured:
    """Rows of one device, and what the model says of it."""

    def __init__(self, device, rows, models):
        self.device, self.rows, self.models = device, rows, models

    def ceiling(self, bench, dtype=None):
        rows = [r for r in self.rows if r.get("bench") == bench and dtype in (None, r.get("dtype"))]
        return rows[-1] if rows else {}


class Results(Measured):
    """What is in a folder."""

    def __init__(self, folder):
        super().__init__("", lines_of(os.path.join(folder, ROWS)), lines_of(os.path.join(folder, MODEL)))
        self.folder = folder
        self.journal = Journal(os.path.join(folder, STATE))
        probe = self.journal.value("device")
        if not probe:
            raise Refused(f"{folder} is no folder of tools/gpu_gate.sh: {STATE} names no device")
        if self.journal.value("emulated") or "(emulated)" in probe:
            raise Refused(f"{folder} is a rehearsal: {probe}")
        if not any(r.get("bench") == "probe" for r in self.rows):
            raise Refused(f"{folder} has no row of the probe")
        if not all(r.get("commit") for r in self.rows if str(r.get("impl", "")).startswith("warptape")):
            raise Refused(f"{folder} has rows that name no commit: build in a git checkout")
        self.probe = probe
        self.device = probe.split(",")[0]
        self.slug = re.sub(r"[^a-z0-9]+", "-", self.device.lower()).strip("-")

    def calls(self):
        return [e["call"] for e in self.journal.events if "call" in e]

    def parts(self):
        names = list(dict.fromkeys(e["part"] for e in self.journal.events if "part" in e))
        return {n: self.journal.result(n) or "not finished" for n in names}

    def failures(self):
        found = []
        for part, result in self.parts().items():
            bad = self.journal.items(part)
            bad = {n: e["result"][8:] for n, e in bad.items() if e["result"].startswith("FAILED")}
            found += [(part, name, why) for name, why in bad.items()]
            if result.startswith("FAILED") and not bad:
                found.append((part, "", result[8:]))
        return found

    def commits(self):
        return sorted({r["commit"] for r in self.rows if r.get("commit")})


def key_of(row):
    return tuple(row.get(k) for k in ("bench", "impl", "shape", "dtype"))


def merged(old, new):
    """Rows of both, of the same thing the newer ones."""
    again = {key_of(r) for r in new}
    return [r for r in old if key_of(r) not in again] + new


# --- predictions ---


def families(contract, variant):
    """Names that the kernels of a variant may have in machine code, the likeliest first."""
    other = {"tensor_core": "mma"}.get(variant, variant)
    short = re.sub(r"_forward$", "", contract)
    stem = re.sub(r"_(forward|backward)(_.*)?$", "", contract)
    names = [f"{contract}_{other}", f"{short}_{other}", contract]
    if stem == short or contract.endswith("_forward"):
        names.append(f"{stem}_{other}")
    if contract in ("sum", "max", "any", "argmax", "prod", "norm", "variance", "logsumexp"):
        names.append(f"reduce_{other}")
    return names


def prediction(results, row):
    """The row of the model for this variant on this GPU, or None."""
    gpu = next((g for g in ("H100", "H200") if g in results.device), None)
    for name in families(row["bench"], row["impl"]):
        for m in results.models:
            if m["bench"].split("<")[0] == name and m["dtype"] == row["dtype"] and gpu and gpu in m["shape"]:
                return m
    return None


def measured_fraction(results, row, model):
    """What the prediction is of: of a copy, or of the peak of products. None: they cannot be compared."""
    if not model.get("of_product"):
        return row["ratio"] if row.get("bound") == "copy" else None
    best = results.ceiling("ceiling_gemm", row["dtype"]).get("tflop_s")
    is_16_bit = row["dtype"] in ("f16", "bf16")
    return row["ratio"] * best / PEAK_TFLOP_S if best and is_16_bit and row.get("bound") == "gemm" else None


def farthest(measured, count):
    """Contracts that are slowest beside their prediction; where none can be predicted, beside their ceiling."""
    rows, _ = timed(measured)
    behind = {}
    for r in rows:
        m = prediction(measured, r)
        real = measured_fraction(measured, r, m) if m else None
        if real:
            behind[r["bench"]] = max(behind.get(r["bench"], 0), m["ratio"] / real)
    if not behind:
        behind = {r["bench"]: 1 / r["ratio"] for r in reversed(rows)}
    return [name for name, _ in sorted(behind.items(), key=lambda item: -item[1])[:count]]


# --- pages ---


def cell(text):
    return str(text).replace("|", "/").replace("\n", " ")


def table(head, lines):
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
                     + [f"| {' | '.join(map(cell, line))} |" for line in lines])  # fmt: skip


def figure(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def section_of(results):
    failed = results.failures()
    parts = [
        f"## {results.device}",
        f"{results.probe}. Runs: {', '.join(results.calls())}; commits {', '.join(results.commits())}.",
        "### What failed\n\n"
        + ("\n".join(f"- {p}: **{n}** {cell(w)}" for p, n, w in failed) if failed else "Nothing."),
        table(["part", "result"], results.parts().items()),
        ceilings_of(results),
        steps_of(results),
        kernels_of(results),
    ]
    return "\n\n".join(p for p in parts if p)


def ceilings_of(results):
    rows = {key_of(r): r for r in results.rows if str(r.get("bench", "")).startswith("ceiling_")}
    lines = [[r["bench"][8:], r["impl"], r["shape"], r["dtype"], figure(r.get("median_us"), 2),
              figure(r["tflop_s"]) + " TFLOP/s" if r.get("tflop_s") else
              figure(r["gb_s"]) + " GB/s" if r.get("gb_s") else "-"] for r in rows.values()]  # fmt: skip
    head = ["what", "how", "size", "dtype", "median us", "rate"]
    return "### Ceilings\n\n" + table(head, lines) if lines else ""


def steps_of(results):
    if not gpu_steps.of_steps(results.rows):
        return ""
    return "### Training steps\n\n" + gpu_steps.table(results.rows)


def timed(results):
    """Of each contract, shape and dtype the fastest right variant; the wrong ones."""
    best, wrong = {}, {}
    for r in results.rows:
        if r.get("check") in ("wrong", "unequal", "failed"):
            wrong[f"{r['bench']}:{r['impl']}"] = f"{r['check']} ({r['dtype']}, {r['shape']})"
        if r.get("check") == "right" and r.get("median_us") and r.get("ratio"):
            at = best.setdefault((r["bench"], r["shape"], r["dtype"]), r)
            if r["median_us"] < at["median_us"]:
                best[(r["bench"], r["shape"], r["dtype"])] = r
    return sorted(best.values(), key=lambda r: r["ratio"]), wrong


def kernels_of(results):
    rows, wrong = timed(results)
    if not rows and not wrong:
        return ""
    lines, off = [], []
    for r in rows:
        m = prediction(results, r)
        real = measured_fraction(results, r, m) if m else None
        lines.append([r["bench"], r["shape"], r["dtype"], r["impl"], figure(r["median_us"], 2),
                      f"{figure(r['ratio'], 2)} of {r.get('bound')}",
                      f"{m['ratio']:.2f} ({m['bound']})" if real is not None else "none"])  # fmt: skip
        if real is not None and max(real / m["ratio"], m["ratio"] / real) > OFF:
            off.append(f"- {r['bench']} {r['dtype']} {r['shape']} ({r['impl']}): {real:.2f}, predicted "
                       f"{m['ratio']:.2f} (bound by {m['bound']})")  # fmt: skip
    head = ["contract", "shape", "dtype", "fastest variant", "median us", "fraction", "predicted"]
    parts = ["### Kernels"]
    if wrong:
        parts.append("Wrong or failed, and never chosen:\n\n" + "\n".join(f"- {n}: {w}" for n, w in wrong.items()))
    parts.append(table(head, lines))
    parts.append(f"The model was off by more than {OFF}:\n\n" + ("\n".join(off) if off else "- nowhere"))
    return "\n\n".join(parts)


def page_of(all_results):
    head = ("# What GPUs have shown\n\nWritten by tools/gpu_results.py from bench/results/; docs/gpu_gate.md has the "
            "method. `predicted` is `wt bench model` for the code that was measured: of a copy, or of the "
            "peak for products; the fastest right variant of each size, the farthest from its ceiling first.")  # fmt: skip
    return head + "\n\n" + "\n\n".join(section_of(r) for r in all_results) + "\n"


def paragraph_of(all_results):
    if not all_results:
        return NONE_YET
    said = []
    for r in all_results:
        done = [n for n, result in r.parts().items() if result.startswith("passed")]
        bad = list(dict.fromkeys(f"{p} {n}".strip() for p, n, _ in r.failures()))
        said.append(f"on {r.device} ({r.calls()[-1][:10]}, {r.commits()[-1]}): {', '.join(done) or 'nothing'} passed; "
                    + (f"failed: {', '.join(bad)}" if bad else "nothing failed"))  # fmt: skip
    return ("**What has run on GPUs**, " + ". ".join(said) + " (docs/gpu_results.md). What stands in for one where there "
            "is none, each for what it can show:")  # fmt: skip


def with_paragraph(readme, text):
    begin, end = readme.find(BEGIN), readme.find(END)
    if begin < 0 or end < begin:
        raise Refused(f"README.md has no marks {BEGIN} and {END}")
    return readme[: begin + len(BEGIN)] + "\n" + text + "\n" + readme[end:]


# --- files ---


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def committed(root):
    """Results of all devices, in the order of their folders' names."""
    base = os.path.join(root, "bench", "results")
    names = sorted(os.listdir(base)) if os.path.isdir(base) else []
    folders = [os.path.join(base, n) for n in names]
    return [Results(f) for f in folders if os.path.exists(os.path.join(f, ROWS))]


def model_of(wt):
    """What the model says of the code that was measured."""
    program = wt or next((p for p in (os.path.join(HERE, "..", "build", n, "wt") for n in ("ci", "release", "cuda"))
                          if os.path.exists(p)), None)  # fmt: skip
    if not program:
        raise Refused("`wt` is needed for the predictions: --wt PROGRAM, or build it")
    return subprocess.run([program, "bench", "model", "--json"], check=True, text=True, stdout=subprocess.PIPE).stdout


def take(folder, root, wt):
    """Everything is made before anything is written."""
    new = Results(folder)
    to = os.path.join(root, "bench", "results", new.slug)
    rows = merged(lines_of(os.path.join(to, ROWS)), new.rows)
    files = {ROWS: "".join(json.dumps(r) + "\n" for r in rows), MODEL: model_of(wt)}
    for name in ("gpu_gate.md", STATE, TUNE):
        text = read(os.path.join(folder, name))
        if text is not None:
            files[name] = text
    for name, text in files.items():
        write(os.path.join(to, name), text)
    return to


def pages(root):
    """path -> text; None: there is to be no such file."""
    results = committed(root)
    readme = os.path.join(root, "README.md")
    return {
        readme: with_paragraph(read(readme) or "", paragraph_of(results)),
        os.path.join(root, "docs", "gpu_results.md"): page_of(results) if results else None,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", metavar="OUTDIR", nargs="?")
    parser.add_argument("--wt", metavar="PROGRAM", help="the command, whose model predicts")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", default=os.path.join(HERE, ".."), help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        pages(args.root)  # nothing is written where these cannot be
        if args.folder:
            print(take(args.folder, args.root, args.wt))
        wrong = [p for p, text in pages(args.root).items() if read(p) != text]
        if args.check:
            print("\n".join(f"{p} is not what the results give: tools/gpu_results.py" for p in wrong))
            return 1 if wrong else 0
        for path, text in pages(args.root).items():
            if text is not None:
                write(path, text)
    except Refused as e:
        print(f"gpu_results: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
