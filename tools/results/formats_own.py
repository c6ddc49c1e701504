"""Formats of figures beside the machine's own ceilings or our own other way: kernels, ranks, watching, emulation."""

import re

from result_file import Result, range_of, reached, spread, table

# --- wt bench kernels, and bench/peers/torch_kernels.py behind it ---

KERNEL = re.compile(r"^(\w+) +\w+ +\S.*? +([\d.]+) +([\d.]+) +[\d.]+ (?:GB/s|GFLOP/s)(?: +([\d.]+) of (copy|gemm) \(median [\d.]+\))? *$")
TORCH = re.compile(r"^\S.* us at best +[\d.]+ median +([\d.]+) GB/s$")
LEAST = 0.7  # of the ceiling


def is_kernels(f):
    return "rate, fraction of the ceiling" in f.text


def kernels(f):
    by, ended, bare, theirs, inside = {}, None, 0, 0, False
    for number, line in enumerate(f.lines, 1):
        row = KERNEL.match(line)
        ended = ended or re.match(r"\d+ of (\d+) rows are below 0\.7 of their ceiling$", line)
        if row and row[4]:
            by.setdefault(row[5], []).append((float(row[4]), row[1]))
        elif row:
            bare += 1
        elif inside and not ended and line and not line.startswith("----"):
            f.fail(f"no row of wt bench kernels: {line}", number)
        theirs += bool(TORCH.match(line))
        inside = inside or line.startswith("kernel ")
    every = [r for rows in by.values() for r, _ in rows]
    if not every or not ended or int(ended[1]) != len(every) + bare:
        f.fail(f"{len(every) + bare} rows of kernels, {ended[1] if ended else 'no number'} said at the end")
    lines = [(c, len(rows), *spread([r for r, _ in rows]), f"{sum(r >= LEAST for r, _ in rows)} of {len(rows)}")
             for c, rows in sorted(by.items())]  # fmt: skip
    low = [name for rows in by.values() for r, name in rows if r < LEAST / 2]
    words = f"{bare} rows more move nothing to speak of."
    if theirs:
        words += f" PyTorch's times of {theirs} calls, one after the other with these, are at the file's end."
    words += f"\nBelow {LEAST / 2:.2f}: {', '.join(sorted(set(low))) or 'none'}."
    head = ("ceiling", "rows", "least fraction", "median", "greatest", f"{LEAST} and more")
    commands = ["wt bench kernels --device cpu"]
    if theirs:
        commands.append("bench/peers/.venv/bin/python bench/peers/torch_kernels.py")
    return Result(f, "kernels", [table(head, lines), words], len(every) + bare, (), commands)


# --- ranks as threads ---

ALLREDUCE = re.compile(r"^automatic +(\d+) +\d+ +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+) +([\d.]+) +[\d.]+ +(\d+)$")
OVERLAP = re.compile(r"^(?:(before|after): )?overlap (--.*)$")
LARGER = re.compile(r"^([\d.]+) of the larger of the two[;,] ")
SCALING = re.compile(r"^Weak scaling: (.*), \d+ samples a rank; ")
RANKS = re.compile(r"^ +(\d+) +[\d.]+ +[\d.]+ +([\d.]+) % +[\d.]+ to [\d.]+ % +(?:-|[\d.]+) +(?:-|([\d.]+) %)$")


def is_ranks(f):
    return any(map(LARGER.match, f.lines)) and any(map(SCALING.match, f.lines))


def ranks(f):
    reduce_us, larger, efficiency, rows = {}, {}, {}, 0
    turn = case = network = ""
    for number, line in enumerate(f.lines, 1):
        overlap, scaling = OVERLAP.match(line), SCALING.match(line)
        row, end, many = ALLREDUCE.match(line), LARGER.match(line), RANKS.match(line)
        rows += bool(row or end or many)
        if line in ("before", "after"):
            turn = line
        elif overlap:
            turn, case = overlap[1] or turn, overlap[2]
        elif scaling:
            network = scaling[1]
        elif row and row[5] != "0":
            f.fail("an allreduce that was wrong", number)
        elif row:
            # A ring of n sends 2 (n - 1) / n of the bytes: 1 for 2 ranks, 1.5 for 4.
            n = 4 if float(row[4]) > 1.25 * float(row[3]) else 2
            reduce_us.setdefault((int(row[1]), n), {}).setdefault(turn, []).append(float(row[2]))
        elif end:
            larger.setdefault(case, {}).setdefault(turn, []).append(float(end[1]))
        elif many:
            efficiency.setdefault((network, int(many[1])), []).append((float(many[2]), many[3]))
        elif line.startswith("automatic "):
            f.fail(f"no row of wt bench allreduce: {line}", number)
    if not (reduce_us and larger and efficiency):
        f.fail("a part of allreduce, overlap and scaling has no row")
    said = [table(("allreduce, bytes", "ranks", "us before the change", "us after"),
                  [(b, n, *turns(us, "{:.1f}")) for (b, n), us in sorted(reduce_us.items())]),
            table(("wt bench overlap", "step / the larger part, before", "after"),
                  [(c, *turns(r, "{:.2f}")) for c, r in larger.items()]),
            table(("weak scaling of", "ranks", "efficiency %", "replicated, %"),
                  [(network, n, range_of([e for e, _ in es], "{:.0f}"), replicated(es))
                   for (network, n), es in efficiency.items()])]  # fmt: skip
    commands = ["wt bench allreduce --samples 31 --ranks 4", *(f"wt bench overlap {c}" for c in larger), "wt bench scaling"]
    return Result(f, "ranks", said, rows, (), commands, note="Links with a latency and a bandwidth are modelled, the times measured.")


def turns(found, form):
    return [range_of(found[t], form) if t in found else "-" for t in ("before", "after")]


def replicated(pairs):
    got = [float(r) for _, r in pairs if r]
    return range_of(got, "{:.0f}") if got else "-"


# --- wt bench overhead --only watched_step ---

WATCHED = re.compile(r"^watched_step (.+?) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)$")


def is_watched(f):
    return "of the bare step's time" in f.text


def watched(f):
    bounds = dict(re.findall(r"(\w+) ([\d.]+)", f.find(r"The bounds that are to hold: (.*)\.$") or ""))
    lines, goals = [], []
    for number, line in enumerate(f.lines, 1):
        row = WATCHED.match(line)
        if row:
            bound = next((float(b) for word, b in bounds.items() if f", {word}" in row[1]), None)
            if bound:
                goals.append(float(row[2]) <= bound)
            lines.append((row[1], row[2], f"at most {bound}: {reached(goals[-1])}" if bound else "-"))
        elif line.startswith("watched_step"):
            f.fail(f"no row of a watched step: {line}", number)
    if not lines:
        f.fail("no row of a watched step")
    return Result(f, "overhead", [table(("step", "of the bare step's time", "goal"), lines)], len(lines), goals)


# --- wt train --device simt, beside an earlier commit ---

SIMT_STEPS = re.compile(r"^\| (\w+) \| (\w{8}) \| ([\d. ]+) \| ([\d.]+) \| (-|[\d.]+) \|$")
TIMES, SECONDS = 3, 10  # the goals: steps, and fashion in all


def is_simt_steps(f):
    return f.lines[0].startswith("wt train RECIPE --device simt")


def simt_steps(f):
    lines, goals, before = [], [], {}
    for number, line in enumerate(f.lines, 1):
        row = SIMT_STEPS.match(line)
        if row and row[1] not in before:
            before[row[1]] = row
        elif row:
            goals.append(float(row[4]) >= TIMES)
            words = f"{TIMES}: {reached(goals[-1])}"
            if row[1] == "fashion":
                goals.append(float(row[5]) < SECONDS)
                words += f"; below {SECONDS} s: {reached(goals[-1])}"
            lines.append((row[1], row[4], before[row[1]][5], row[5], words))
        elif line.startswith("|") and not re.match(r"\|(-| recipe )", line):
            f.fail(f"no row of simt's steps: {line}", number)
    if not lines:
        f.fail("no row of simt's steps beside an earlier commit")
    head = ("recipe", "times the earlier commit's steps", "its seconds in all", "seconds in all", "goal")
    return Result(f, "emulation", [table(head, lines)], 2 * len(lines), goals)


# --- bench/simt_bench.cu on both devices without a GPU ---

TIMED = re.compile(r"^  (.+): ([\d.]+) (us|ms|ns) ?(a \w+)?$")


def is_emulator(f):
    return {"simt_bench", "tools/emulate --eager emulator_bench"} <= set(f.lines)


def emulator(f):
    times, of = {}, None
    for number, line in enumerate(f.lines, 1):
        row = TIMED.match(line)
        if line.endswith("_bench"):
            of = times.setdefault(line.split()[-1], {})
        elif row and of is not None:
            of[row[1].replace(", forward", "")] = float(row[2])
        elif line.startswith("  "):
            f.fail(f"no row of simt_bench: {line}", number)
    simt, emulated = times["simt_bench"], times["emulator_bench"]
    both = [name for name in simt if name in emulated]
    lines = [(name, f"{emulated[name] / simt[name]:.2f}") for name in both]
    words = "The emulated cuda device's time over simt's, which executes the same kernels' sources."
    return Result(f, "emulation", [words, table(("row", "emulated / simt"), lines)], len(simt) + len(emulated), (), list(times))
