"""A results folder of tools/gpu_gate.sh, and what is kept of such folders in bench/results/<device>/.

    gpu_gate.jsonl          rows of all runs on this device; `run` says which one a row is of
    gpu_gate.md             page of the newest run; gpu_gate-DATE.md of those before
    tune.tsv                what wt tune found; the library ships with it
    model.jsonl             what `wt bench model` said of this GPU before the newest run
"""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "gate"), os.path.join(HERE, "..", "..", "bench", "peers")]
import gpu_steps  # noqa: E402  its comparison needs no torch
from journal import lines_of  # noqa: E402

UNFIT, INCOMPLETE = 2, 3  # exit codes
VERDICTS = ("right", "wrong", "unequal", "failed")  # of wt tune
REHEARSAL_COPY = "1048576"  # bytes of ceiling_copy at --scale small


class Refused(Exception):
    def __init__(self, words, code):
        super().__init__(words)
        self.code = code


def slug(name):
    """NVIDIA H100 80GB HBM3: nvidia-h100-80gb-hbm3."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def device_of(row):
    """The GPU's name: `machine` has the host's behind a comma, PyTorch's rows have none."""
    return str(row.get("machine") or "").split(", ")[0]


def is_theirs(row):
    return str(row.get("impl", "")).startswith("torch ")


def is_tuned(row):
    return row.get("check") in VERDICTS


def group(row):
    """Rows that one run replaces together. Pairs of steps have to be of one run, and so have the
    variants of a kernel at one size."""
    bench, dtype, shape = row.get("bench"), row.get("dtype"), row.get("shape")
    if bench in gpu_steps.MODELS:
        return ("step", bench, dtype)
    if is_tuned(row):
        return ("tune", bench, shape, dtype)
    return (bench, row.get("impl"), shape, dtype)


def latest(rows):
    """Of what was measured more than once the last; of steps all turns."""
    found = {}
    for n, r in enumerate(rows):
        turn = n if r.get("bench") in gpu_steps.MODELS else r.get("impl")
        found.pop((group(r), turn), None)
        found[(group(r), turn)] = r
    return list(found.values())


class Page:
    """What is read from gpu_gate.md."""

    def __init__(self, text):
        self.text = text
        blocks = text.split("\n\n")
        self.calls = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", blocks[1]) if len(blocks) > 1 else []
        self.probe = blocks[2].strip() if len(blocks) > 2 else ""
        failed = re.search(r"^## What failed\n+(.*?)(?=^## |^\| part|\Z)", text, re.M | re.S)
        self.failed = re.findall(r"^- (.*)$", failed.group(1), re.M) if failed else []
        self.parts = re.findall(r"^\| (\w+) \| (.*) \| \d+ \|$", text, re.M)

    def goes_on_from(self, other):
        """Whether it is of the same folder, later."""
        return self.calls[: len(other.calls)] == other.calls and self.probe == other.probe


class Tune:
    """The text of a tune file: kernels/dispatch/run_tune_file.h."""

    def __init__(self, text, source):
        lines = text.split("\n")
        columns = next((n for n, line in enumerate(lines) if line.startswith("contract\t")), None)
        if lines[0] != "warptape tune 1" or columns is None or lines[-1] != "":
            raise Refused(f"{source} is no whole tune file", INCOMPLETE)
        self.head, self.rows = lines[: columns + 1], lines[columns + 1 : -2]
        if lines[-2] != f"end\t{len(self.rows)}":
            raise Refused(f"{source} is damaged: its end does not count {len(self.rows)} rows", INCOMPLETE)

    def value(self, key):
        return next((line.split("\t")[1] for line in self.head if line.startswith(key + "\t")), "")

    def over(self, old):
        """With the rows of an earlier file, for what this one has not come to."""
        mine = {tuple(r.split("\t")[:3]) for r in self.rows}
        self.rows = [r for r in old.rows if tuple(r.split("\t")[:3]) not in mine] + self.rows
        if old.value("state") == "complete":
            self.head = ["state\tcomplete" if line.startswith("state\t") else line for line in self.head]

    def text(self):
        return "\n".join([*self.head, *self.rows, f"end\t{len(self.rows)}", ""])


def text_of(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


class Run:
    """A results folder that is fit to be kept; else it throws Refused."""

    def __init__(self, folder):
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        if not os.path.isdir(folder):
            raise Refused(f"{folder} is no folder", INCOMPLETE)
        text = text_of(at("gpu_gate.md"))
        if text is None:
            raise Refused(f"{folder} is incomplete: it has no gpu_gate.md", INCOMPLETE)
        self.page, rows = Page(text), lines_of(at("gpu_gate.jsonl"))
        probes = [r for r in rows if r.get("bench") == "probe"]
        if not probes:
            said = text.split("\n\n")[1].split("\n")[0] if "\n\n" in text else ""
            raise Refused(f"{folder} is incomplete: no row of the probe. Its page says: {said.strip()}", INCOMPLETE)
        self.name = device_of(probes[-1])
        tune = text_of(at("tune.tsv"))
        self.tune = Tune(tune, at("tune.tsv")) if tune is not None else None
        refuse_rehearsals(folder, rows, self)
        refuse_mixtures(folder, rows, self)
        if not self.page.calls:
            raise Refused(f"{folder} is incomplete: its page does not say when it ran", INCOMPLETE)
        self.rows = [{**r, "run": self.page.calls[0]} for r in latest(rows)]


def refuse_rehearsals(folder, rows, run):
    state = lines_of(os.path.join(folder, "gpu_gate_state.jsonl"))
    named = [device_of(r) for r in rows] + ([run.tune.value("device")] if run.tune else [])
    if (any("emulated" in n.lower() for n in named) or "emulated" in run.page.text.split("## ")[0].lower()
            or any(e.get("emulated") for e in state)):  # fmt: skip
        raise Refused(f"{folder} is of an emulated device: nothing in it was measured", UNFIT)
    for r in rows:
        if not is_theirs(r) and not str(r.get("device", "")).startswith("cuda"):
            raise Refused(f"{folder} is of the device {r.get('device')}, not of a GPU", UNFIT)
        if r.get("bench") == "ceiling_copy" and r.get("shape") == REHEARSAL_COPY:
            raise Refused(f"{folder} is a rehearsal: its sizes are those of --scale small", UNFIT)


def refuse_mixtures(folder, rows, run):
    for r in rows:
        if device_of(r) != run.name:
            raise Refused(f"{folder} has rows of two devices: {run.name} and {device_of(r) or 'one without a name'}", UNFIT)
        commit = str(r.get("commit") or "")
        if not is_theirs(r) and not re.fullmatch(r"[0-9a-f]{7,40}", commit):
            raise Refused(f"{folder}: a row of {r.get('bench')} has no clean commit: {commit or 'none'}", UNFIT)
    if run.tune and run.tune.value("device") != run.name:
        raise Refused(f"{folder}/tune.tsv is of {run.tune.value('device')}, the rows are of {run.name}", UNFIT)


class Device:
    """bench/results/<device>/ as it is, and, with a run, as it is to be."""

    def __init__(self, folder):
        self.folder = folder
        self.rows = lines_of(os.path.join(folder, "gpu_gate.jsonl"))
        self.model = lines_of(os.path.join(folder, "model.jsonl"))
        tune = text_of(os.path.join(folder, "tune.tsv"))
        self.tune = Tune(tune, os.path.join(folder, "tune.tsv")) if tune is not None else None
        names = os.listdir(folder) if os.path.isdir(folder) else []
        kept = sorted((n for n in names if re.fullmatch(r"gpu_gate-.*\.md", n)), reverse=True)
        self.pages = {n: Page(text_of(os.path.join(folder, n)))
                      for n in ["gpu_gate.md"] * ("gpu_gate.md" in names) + kept}  # fmt: skip
        self.gone = []  # names of files that are to go

    @property
    def name(self):
        return device_of(self.rows[-1]) if self.rows else ""

    def add(self, run, model):
        new = {group(r) for r in run.rows}
        self.rows = [r for r in self.rows if group(r) not in new] + run.rows
        self.model = model or self.model
        if run.tune:
            if self.tune:
                run.tune.over(self.tune)
            self.tune = run.tune
        pages = {}
        for name, page in self.pages.items():
            if run.page.goes_on_from(page):
                self.gone.append(name)
                continue
            pages[dated(page) if name == "gpu_gate.md" else name] = page
        self.pages = {"gpu_gate.md": run.page, **pages}
        self.gone = [n for n in self.gone if n not in self.pages]

    def files(self):
        """path: text, None for one that goes."""
        rows = {"gpu_gate.jsonl": self.rows, "model.jsonl": self.model}
        texts = {n: "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in of) for n, of in rows.items() if of}
        texts.update({n: p.text for n, p in self.pages.items()})
        if self.tune:
            texts["tune.tsv"] = self.tune.text()
        texts.update({n: None for n in self.gone})
        return {os.path.join(self.folder, n): t for n, t in texts.items()}


def dated(page):
    when = re.sub(r" UTC$", "", page.calls[0]).replace(" ", "-").replace(":", "") if page.calls else "undated"
    return f"gpu_gate-{when}.md"


def devices(root):
    """Those that have rows, by folder."""
    base = os.path.join(root, "bench", "results")
    names = sorted(os.listdir(base)) if os.path.isdir(base) else []
    return {n: Device(os.path.join(base, n)) for n in names
            if os.path.exists(os.path.join(base, n, "gpu_gate.jsonl"))}  # fmt: skip
