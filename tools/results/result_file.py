"""A file of bench/results: its text, what any format says in the same words, and what a parser makes of it."""

import re
import statistics

PEERS = {"torch": "PyTorch", "libtorch": "libtorch", "jax": "JAX"}


class Unreadable(Exception):
    """A file, or a line of one, that the page cannot have: the message names it."""


class File:
    def __init__(self, path, text):
        self.path, self.text = path, text  # path: under bench/results, with /
        self.lines = text.splitlines()

    def fail(self, why, number=None):
        raise Unreadable(f"bench/results/{self.path}{f':{number}' if number else ''}: {why}")

    def find(self, pattern, flags=re.M):
        """The first group of the first match, None without one."""
        got = re.search(pattern, self.text, flags)
        return got and got[1]

    @property
    def head(self):
        """What stands before the first line that is empty or a row."""
        out = []
        for line in self.lines:
            if not line or line.startswith("{"):
                break
            out.append(line.lstrip("# "))
        return " ".join(out)

    @property
    def machine(self):
        return self.path.rpartition("/")[0]

    @property
    def date(self):
        name = self.path.rpartition("/")[2]
        found = re.match(r"\d{4}-\d\d-\d\d", name)
        return found[0] if found else self.find(r"^date\s+(\d{4}-\d\d-\d\d)") or "-"

    @property
    def commit(self):
        of = self.find(r"^wt built at ([0-9a-f]{7,40})") or self.find(r"commit\s+([0-9a-f]{7,40})")
        return of and of[:9]

    @property
    def load(self):
        """What is known of other work: several numbers are of several runs."""
        got = [float(n) for n in re.findall(r"load average(?: now)? \(?([\d.]+\d)", self.text)]
        if not got:
            return None
        return range_of(got, "{:.1f}")

    def commands(self):
        """Lines that are a command and nothing else."""
        shape = r"^ {0,4}((?:bench/peers/|bench/learn|wt bench |tools/)[^:\n]*)$"
        return list(dict.fromkeys(c.strip() for c in re.findall(shape, self.text, re.M)))


class Result:
    """One entry of the page."""

    def __init__(self, file, subject, says, rows=None, goals=(), commands=(), modelled=False, note=""):
        self.file, self.subject, self.modelled, self.note = file, subject, modelled, note
        self.says = says  # Markdown, a paragraph or table each
        self.rows = rows  # how many were measured; None where the file has no rows
        self.goals = list(goals)  # whether each goal that the file is held against is reached
        self.commands = list(commands) or file.commands()


def cell(value):
    return str(value).replace("|", "/")


def table(head, rows):
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def spread(values, form="{:.2f}"):
    """Cells: the least, the median, the greatest."""
    return [form.format(f(values)) for f in (min, statistics.median, max)]


def reached(yes):
    return "reached" if yes else "not reached"


def range_of(values, form="{:.2f}"):
    """'1.06 to 1.13', or one number where all are the same."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"
