"""Formats of what was learned, of what was counted, and of what is modelled; files of a GPU's gate by their names."""

import json
import re
import statistics

from result_file import Result, range_of, table

# --- learned ---


def is_race(f):
    return '{"recipe":"precision-race"' in f.text


def race(f):
    lines, runs = [], 0
    for line in f.lines:
        if not line.startswith("{"):
            continue
        got = json.loads(line)
        runs += got["runs_finished"]
        for r in got["results"]:
            lines.append((f"{got['of']}, {got['device']}", got["seeds"], got["steps"], r["precision"],
                          f"{r['eval_loss']:.4f} +- {r['eval_loss_deviation']:.4f}",
                          f"{100 * r['accuracy']:.2f} +- {100 * r['accuracy_deviation']:.2f}",
                          f"{r['from_f32']:.2f}", r["diverged"]))  # fmt: skip
    head = ("recipe", "seeds", "steps", "precision", "held-out loss", "accuracy %", "from f32, deviations", "diverged")
    options = re.findall(r"^(--(?:set|device) .*)$", f.text, re.M)
    return Result(f, "learned", [table(head, lines)], runs, (), [f"wt train precision-race {o}" for o in options],
                  note=machine_words(f))  # fmt: skip


def machine_words(f):
    """The line that says how busy the machine was, without the commit that the entry has already."""
    line = f.find(r"^(?:commit \w+; )?(.*\b\d+ cores,.*)$") or ""
    words = re.sub(r",? commit \w+\.$", "", line)
    return words + "." * bool(words)


LEARNED = re.compile(r"^([\w-]+) +(\d+) +([\d.]+) +([\d.]+|-) +\d+ +(\w+)$")
BLEU = re.compile(r"^BLEU after each epoch: ([\d. ]+): (\w+)$")
WORDS = re.compile(r"^generate +(\d+) +\d+ +([\d.]+)% +(\w+)$")


def is_learn(f):
    return f.text.startswith("bench/learn.sh ")


def losses_of(of):
    return range_of(of, "{:.4f}" if min(of) >= 0.01 else "{:.2g}")  # a recipe's own measure may be small


def accuracies(of):
    return "-" if None in of else range_of(of, "{:.2f}")


def learn(f):
    losses, known, bad, bleu = {}, [], [], ""
    for line in f.lines:
        row, words = LEARNED.match(line), WORDS.match(line)
        if row:
            accuracy = None if row[4] == "-" else 100 * float(row[4])
            losses.setdefault(row[1], []).append((float(row[3]), accuracy))
        if words:
            known.append(float(words[2]))
        scores = BLEU.match(line)
        if scores:
            bleu = f"BLEU after each epoch: {scores[1]}. "
        got = row or words or scores
        if got and got[got.lastindex] != "ok":
            bad.append(line)
    if not losses:
        f.fail("no row of bench/learn.sh")
    lines = [(name, len(of), losses_of([x for x, _ in of]), accuracies([a for _, a in of]))
             for name, of in losses.items()]  # fmt: skip
    said = [table(("recipe", "seeds", "loss", "accuracy %"), lines)]
    words = f"Of the words that a trained charlm writes {range_of(known, '{:.0f}')} % are words of its text. " if known else ""
    words += bleu
    words += f"Not as wanted: {'; '.join(bad)}." if bad else "Every verdict is ok."
    return Result(f, "learned", [*said, words], sum(map(len, losses.values())) + len(known), [not bad],
                  [f.lines[0]], note=machine_words(f))  # fmt: skip


# --- counted: what tools/ writes, first line "# Written by tools/NAME.sh: ..." ---

WRITTEN = re.compile(r"^# (?:Written by (tools/\w+\.sh)(?: [\w-]+)*: .*|What (tools/test\.sh) costs, .*)$")
SOAK = re.compile(r"^(\w+) step (\d+): live (\d+) bytes in \d+ tensors, reserved (\d+), .*RSS (\d+) KiB")


def is_counted(f):
    return bool(f.lines and WRITTEN.match(f.lines[0]))


def counted(f):
    tool = WRITTEN.match(f.lines[0])
    tool = tool[1] or tool[2]
    if tool == "tools/test.sh":  # its figures change with any test: only what they are
        return Result(f, "checks", [" ".join(line.lstrip("# ") for line in f.lines if line.startswith("#"))], None, (),
                      ["tools/test.sh --update-cost"])  # fmt: skip
    if tool == "tools/soak.sh":
        return soak(f)
    words = ends_of(f, tool)
    if not words:
        f.fail(f"nothing of what {tool} writes")
    option = f.find(r"^# Written by tools/\w+\.sh ((?:--[\w-]+ ?)+)")
    if tool == "tools/fuzz.sh" and "\nlibFuzzer, " in f.text:
        option = "--guided"
    return Result(f, "checks", [words], None, (), [f"{tool} {option or ''}".strip()])


def ends_of(f, tool):
    """The lines that say what came out, without the comments of earlier runs."""
    if tool == "tools/coverage.sh":
        total = f.find(r"^total +\d+ +\d+ +([\d.]+)%$")
        return total and f"{total} % of the lines of core, kernels and autograd run in the plain tests, on the cpu."
    if tool == "tools/mutate.sh":
        got = re.search(r"^# (\d+) faults: (\d+) killed, (\d+) survived, (\d+) equivalent", f.text, re.M)
        return got and f"{got[1]} faults planted: {got[2]} seen by a test, {got[3]} survived, {got[4]} change nothing."
    lines = [line for line in f.lines if re.match(r"(passed|FAILED) ", line)]
    words = "; ".join(re.sub(r", \d+ s\b", "", line.split(";")[0]) for line in lines)
    why = " (what failed is in the file's comments)" if "FAILED" in words else ""
    return f"{words}{why}." if lines else None


def soak(f):
    by = {}
    for row in map(SOAK.match, f.lines):
        if row:
            by.setdefault(row[1], []).append([int(n) for n in row.groups()[1:]])
    if not by:
        f.fail("no step of tools/soak.sh")
    lines = [(name, rows[-1][0], range_of([r[1] for r in rows], "{:d}"), range_of([r[2] for r in rows], "{:d}"),
              f"{rows[0][3]} and {rows[-1][3]}") for name, rows in by.items()]  # fmt: skip
    head = ("model", "steps", "live bytes", "reserved bytes", "RSS in KiB, first and last")
    return Result(f, "memory", [table(head, lines)], sum(map(len, by.values())), (), ["tools/soak.sh"])


# --- modelled ---

MODEL = re.compile(r"^(\S.*?) +([\d.]+)(?: x)? +(?:-|[\d.]+)(?: x)?  (\S.*?) +([\d.]+)(?: x)? +(?:-|[\d.]+)(?: x)?  (\S.*?) *$")


def is_modelled(f):
    return f.text.startswith("# modelled, not measured: wt bench model")


def modelled(f):
    end = re.search(r"^(\d+) rows: .* on H200 \(modelled\)$", f.text, re.M)
    rows = [row for row in map(MODEL.match, f.lines) if row]
    if not end or int(end[1]) != len(rows):
        f.fail(f"{len(rows)} rows of wt bench model, {end[1] if end else 'no number'} said at the end")
    lines = [(gpu, len(rows), f"{statistics.median(float(r[i]) for r in rows):.2f}",
              f"{sum(float(r[i]) >= 0.9 for r in rows)} of {len(rows)}") for gpu, i in (("H100 SXM", 2), ("H200", 4))]  # fmt: skip
    said = [f.head, end[0] + ".", table(("GPU, modelled", "kernels", "median fraction", "0.9 and more"), lines)]
    return Result(f, "modelled", said, None, (), ["wt bench model --before TABLE"], modelled=True)


# --- files that tools/gpu_results.py keeps, whose figures are on a page of their own ---

GATE_FILES = {"gpu_gate.jsonl": "rows of all runs of tools/gpu_gate.sh", "tune.tsv": "what wt tune found",
              "model.jsonl": "what wt bench model says of this GPU"}  # fmt: skip


def is_gpu_gate(f):
    name = f.path.rpartition("/")[2]
    return bool(f.machine) and (name in GATE_FILES or bool(re.fullmatch(r"gpu_gate(-.*)?\.md", name)))


def gpu_gate(f):
    name = f.path.rpartition("/")[2]
    what = GATE_FILES.get(name, "a page of tools/gpu_gate.sh")
    said = f"{what[0].upper()}{what[1:]}: [gpu_results.md](gpu_results.md) has the figures."
    of_model = name == "model.jsonl"
    return Result(f, "modelled" if of_model else "gpu", [said], None, (), ["tools/gpu_gate.sh"], modelled=of_model)
