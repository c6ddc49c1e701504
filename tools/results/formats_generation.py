"""bench/peers/generate.py: text token by token with a cache beside transformers, kept as it prints."""

import re

from result_file import Result, reached, table

GOAL = 1.5  # times their tokens a second, of GPT-2 at batch 1

HEAD = re.compile(r"^## (\d+) threads?; load average ([\d.]+) before$")
END = re.compile(r"^- (\w+) (\w+): ([\d.]+) times the tokens a second of (.+?); best windows ([\d.]+) times .+$")


def is_generation(f):
    return any(map(END.match, f.lines)) or any(line.startswith("| model | precision | who | tokens/s |") for line in f.lines)


def generation(f):
    threads, rows, lines, goals, rates = None, 0, [], [], {}
    for number, line in enumerate(f.lines, 1):
        if head := HEAD.match(line):
            threads, rates = int(head[1]), {}
        elif threads and line.startswith("|") and not line.startswith(("| model |", "|---")):
            cells = [c.strip() for c in line.strip("|").split("|")]
            if len(cells) != 8:
                f.fail("a table of another form", number)
            rows += 1
            if cells[2].startswith("warptape"):
                rates[cells[0], cells[1]] = cells[3]
        elif end := END.match(line):
            ratio = float(end[3])
            if (end[1], end[2]) not in rates:
                f.fail(f"no row of ours for {end[1]} {end[2]}", number)
            goals.append(ratio >= GOAL)
            lines.append((end[1], end[2], threads, rates[end[1], end[2]], f"{ratio:.2f} ({end[4]})", end[5],
                          f"{GOAL}: {reached(goals[-1])}"))  # fmt: skip
    if not lines:
        f.fail("no comparison of both sides")
    head = ("model", "precision", "threads", "tokens a second", "ours / theirs", "of best windows", "goal")
    command = "bench/peers/.venv/bin/python bench/peers/generate.py build/release/wt"
    return Result(f, "generation", [table(head, lines)], rows, goals, f.commands() or [command])
