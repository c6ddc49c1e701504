"""Formats of what stands beside PyTorch, libtorch or JAX in one run: gates, operators, loaders, folders."""

import re

from result_file import PEERS, Result, range_of, reached, spread, table

# --- bench/peers/gate.py ---

BLOCK = re.compile(r"^(\w+), (\d+) threads?, us \(.*\)$")
OURS = re.compile(r"^  ours: ")
PEER = re.compile(r"^  (\w+)( .*?)? {2,}\S+ +\S+ +([\d.]+)x +\(pairs ([\d.]+) \.\. ([\d.]+)\)$")
GATE = re.compile(r"^  (G\w+) +(\w+) +(\d+) threads? +>= +([\d.]+)x (.*?) +(?:([\d.]+)x (.*?) +"
                  r"worst pair ([\d.]+)x +(passed|BELOW)|(SKIPPED|NO FIGURE): .*)$")  # fmt: skip
FOR_INFORMATION = re.compile(r"^  G\w+ for information: ")
GATES = "gates: best mode of the peer / ours"


def is_gate(f):
    return GATES in f.lines


def gate(f):
    if "VOID: " in f.text:
        f.fail("the run is void, and no result")
    ratios, goals, rows, at = {}, {}, 0, None
    for number, line in enumerate(f.lines, 1):
        block, peer, goal = BLOCK.match(line), PEER.match(line), GATE.match(line)
        if line.startswith("{"):
            rows += 1
        elif line == GATES:
            at = "gates"
        elif block:
            at = (block[1], int(block[2]))
        elif at == "gates" and goal:
            if goal[6] or goal[10] == "NO FIGURE":
                goals.setdefault((goal[2], int(goal[3])), []).append(goal)
        elif peer and at and at != "gates":
            best = ratios.setdefault(at, {})
            if peer[1] not in best or float(peer[3]) < best[peer[1]][0]:
                best[peer[1]] = (float(peer[3]), float(peer[4]))
        elif line.startswith("  ") and not OURS.match(line) and not FOR_INFORMATION.match(line):
            f.fail(f"no row of bench/peers/gate.py: {line.strip()}", number)
    if not ratios:
        f.fail("a gate without a table of ratios")
    before = f.head.split("machine: ")[0].strip()
    every = [g for found in goals.values() for g in found]
    said = [table(("row", "threads", *(f"{p} / ours" for p in PEERS.values()), "goal"),
                  [gate_row(key, ratios[key], goals.get(key, [])) for key in ratios])]  # fmt: skip
    return Result(f, "overhead", [before] * bool(before) + said, rows, [g[9] == "passed" for g in every],
                  [gate_command(f, ratios)], note=provisional(f))  # fmt: skip


def gate_command(f, ratios):
    """The output does not say how it was asked for; what it has and has left out does."""
    names, threads = list(dict.fromkeys(n for n, _ in ratios)), sorted({t for _, t in ratios})
    command = "bench/peers/gate.py build/release/wt"
    if threads != [1, 2]:
        command += f" --threads {','.join(map(str, threads))}"
    if "SKIPPED: not asked for" in f.text:
        command += "".join(f" --bench {n}" for n in names)
    return command + " --data FASHION_MNIST" * ("loader" in names)


def gate_row(key, best, goals):
    cells = [f"{best[p][0]:.2f} ({best[p][1]:.2f})" if p in best else "-" for p in PEERS]
    return (*key, *cells, "; ".join(map(goal_words, goals)) or "-")


def goal_words(g):
    names = " or ".join(PEERS.get(p, p) for p in g[5].split(" or "))
    return f"{g[1]}, {g[4]} of {names}: {'no figure' if g[10] else reached(g[9] == 'passed')}"


def provisional(f):
    return "Provisional: other programs took part." if "figures are provisional" in f.text else ""


# --- bench/peers/operators.py ---

OPERATORS = re.compile(r"^(\d+) threads?; PyTorch (\S+); minima of ")
OPERATOR = re.compile(r"^(\w+) +\S.*? +\w+ +(forward|gradients) +(\d+) +(\d+) +([\d.]+)$")
WORST = 1.5  # operators.py's GOAL: our time at most so many times PyTorch's


def is_operators(f):
    return any(map(OPERATORS.match, f.lines))


def operators(f):
    found, threads = {}, None
    for number, line in enumerate(f.lines, 1):
        head, row = OPERATORS.match(line), OPERATOR.match(line)
        if head:
            threads = int(head[1])
        elif row and threads:
            found.setdefault(row[1], {}).setdefault(threads, []).append(int(row[4]) / int(row[3]))
        elif threads and re.search(r" (forward|gradients) ", line):
            f.fail(f"no row of bench/peers/operators.py: {line.strip()}", number)
    every = [r for of in found.values() for ratios in of.values() for r in ratios]
    if not every:
        f.fail("no rows of operators")
    counts = sorted({n for of in found.values() for n in of})
    head = ["operator", "rows"]
    for n in counts:
        head += [f"{n} thread{'s' * (n > 1)}: least", "median", "greatest"]
    lines = []
    for name, of in found.items():
        cells = [c for n in counts for c in (spread(of[n]) if n in of else ["-"] * 3)]
        lines.append((name, sum(map(len, of.values())), *cells))
    slow = sum(1 / r > WORST for r in every)
    least, middle, most = spread(every)
    words = (f"PyTorch's time / ours of {len(every)} rows: {least} at worst, {middle} in the median, {most} at best. "
             f"Goal: none\nbelow {1 / WORST:.2f} ({WORST} times PyTorch's time); {slow} are: {reached(not slow)}.")  # fmt: skip
    return Result(f, "operators", [words, table(head, lines)], len(every), [not slow])


# --- wt bench loader ---

TIER = re.compile(r"^(disk|mapped|pinned|resident) +\S+ \S+ b\d+, \d+ batches +(\d+) +([\d.]+) +([\d.]+)% +\d+ +\d+$")


def is_loader(f):
    return "images/s   us a step    stall" in f.text


def loader(f):
    tiers, goals, rows, simt = [], [], 0, False
    for number, line in enumerate(f.lines, 1):
        tier, goal = TIER.match(line), GATE.match(line)
        simt = simt or line.startswith("Tiers, on simt")
        rows += bool(tier) or line.startswith("warptape ")
        if tier and not simt:  # on simt the times say nothing
            tiers.append((tier[1], tier[2], tier[3], f"{tier[4]} %"))
        elif goal and goal[6]:
            goals.append(goal)
        elif re.match(r"(disk|mapped|pinned|resident) |  G", line) and not tier and not goal:
            f.fail(f"no row of a loader: {line.strip()}", number)
    if not tiers:
        f.fail("no row of a tier")
    said = [table(("data lies", "images/s", "us a step", "of it waiting"), tiers)]
    if goals:
        said.append(table(("row", "threads", "PyTorch / ours", "worst pair", "goal"),
                          [(g[2], g[3], f"{g[6]} ({g[7]})", g[8], goal_words(g)) for g in goals]))  # fmt: skip
    commands = re.findall(r"((?:wt bench loader|bench/peers/gate\.py) [^\n]*)$", f.text, re.M)
    return Result(f, "loader", said, rows, [g[9] == "passed" for g in goals], commands)


# --- bench/peers/image_folder.py ---

FOLDER = re.compile(r"^workers (\d+): ([\d.]+) of PyTorch's faster way, ([\d.]+) of PIL; with fast_downscale ([\d.]+)$")


def is_image_folder(f):
    return "warptape ImageFolder workers" in f.text


def image_folder(f):
    lines, of, rows = [], "?", 0
    for number, line in enumerate(f.lines, 1):
        found, head = FOLDER.match(line), re.match(r"\d+ images: (?:\d+ times each of )?(.*)$", line)
        of = head[1] if head else of
        rows += bool(re.match(r"(warptape|torch) .* \d+ +\d+ - +\d+ ", line))
        if found:
            lines.append((of, *found.groups()))
        elif re.match(r"workers \d", line):
            f.fail(f"no ratio of image_folder.py: {line}", number)
    if not lines:
        f.fail("no ratio beside PyTorch")
    head = ("images, to", "workers", "of PyTorch's faster way", "of PIL", "fast_downscale, of the faster way")
    words = f"Images a second over PyTorch's: {range_of([float(x[2]) for x in lines])} of its faster way."
    return Result(f, "loader", [words, table(head, lines)], rows)
