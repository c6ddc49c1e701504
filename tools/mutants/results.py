"""The result file: written by a run, read by the next tools/test.sh."""
import datetime
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from faults import CLASSES, Fault

FIELDS = ["id", "outcome", "class", "file", "line", "objects", "seconds", "part", "case", "before",
          "after"]


@dataclass
class Outcome:
    fault: Fault
    outcome: str  # killed, survived or equivalent
    part: str = "-"
    case: str = "-"  # the test case that fails, or "time"
    objects: int = 0
    seconds: float = 0  # CPU seconds to build it and to see it fail
    reason: str = ""


@dataclass
class Result:
    commit: str = ""
    date: str = ""
    seed: str = ""
    redrawn: int = 0
    outcomes: list = field(default_factory=list)

    def count(self, outcome, kind=""):
        return sum(o.outcome == outcome and (not kind or o.fault.kind == kind)
                   for o in self.outcomes)

    def score(self):
        """Percent killed of those that are faults."""
        faults = len(self.outcomes) - self.count("equivalent")
        return 100 * self.count("killed") / faults if faults else 0

    def summary(self):
        return (f"{len(self.outcomes)} faults: {self.count('killed')} killed, "
                f"{self.count('survived')} survived, {self.count('equivalent')} equivalent: "
                f"{self.score():.1f} % killed")

    def table(self):
        lines = [f"{'class':<12}{'drawn':>6}{'killed':>8}{'survived':>10}{'equivalent':>12}"]
        for kind in CLASSES:
            numbers = [self.count(o, kind) for o in ("killed", "survived", "equivalent")]
            if sum(numbers):
                lines.append(f"{kind:<12}{sum(numbers):>6}{numbers[0]:>8}{numbers[1]:>10}"
                             f"{numbers[2]:>12}")
        return lines

    def write(self, path):
        lines = ["# Written by tools/mutate.sh: faults that were planted and what became of them.",
                 f"# {self.summary()}"]
        lines += [f"# {row}" for row in self.table()]
        lines += [f"commit\t{self.commit}", f"date\t{self.date}", f"seed\t{self.seed}",
                  f"redrawn\t{self.redrawn}", "\t".join(FIELDS)]
        for n, o in enumerate(self.outcomes, 1):
            f = o.fault
            lines.append("\t".join([f"m{n:02}", o.outcome, f.kind, f.file, str(f.line),
                                    str(o.objects), f"{o.seconds:.0f}", o.part, o.case,
                                    f.before.strip(), f.after.strip()]))
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("\n".join(lines) + "\n")


def read(path):
    result = Result()
    for line in Path(path).read_text().split("\n"):
        cells = line.split("\t")
        if cells[0] in ("commit", "date", "seed") and len(cells) == 2:
            setattr(result, cells[0], cells[1])
        elif cells[0].startswith("m") and len(cells) == len(FIELDS):
            row = dict(zip(FIELDS, cells))
            fault = Fault(row["file"], int(row["line"]), row["class"], row["before"], row["after"])
            result.outcomes.append(Outcome(fault, row["outcome"], row["part"], row["case"],
                                           int(row["objects"]), float(row["seconds"])))
    return result


def read_equivalent(path):
    """(file, before, after) -> reason, of the faults that are none."""
    found = {}
    if Path(path).exists():
        for line in Path(path).read_text().split("\n"):
            if line and not line.startswith("#"):
                file, before, after, reason = line.split("\t")
                found[file, before, after] = reason
    if len(found) > 5:
        raise SystemExit(f"mutate: {path} names {len(found)} faults, 5 are allowed")
    return found


def git(root, *args):
    """What git prints; "" where it fails, in a tree that is no checkout or without git at all."""
    try:
        p = subprocess.run(["git", "-C", str(root), *args], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        return ""
    return p.stdout.strip() if p.returncode == 0 else ""


def age(root, commit, date):
    """The age of a result in words."""
    try:
        days = (datetime.date.today() - datetime.date.fromisoformat(date)).days
    except ValueError:
        return "of an unknown date"
    commits = git(root, "rev-list", "--count", f"{commit}..HEAD")
    return f"{days} days and {commits or 'an unknown number of'} commits ago"
