"""The committed table: a row a kernel, columns by blanks. Reading, writing, and what is worse."""
from dataclasses import dataclass

# column: (meaning, what is worse, how much may change unnoticed)
LESS, MORE, ANY = "less", "more", "any"
COLUMNS = {
    "regs": ("registers a thread", ANY, 0),
    "launch": ("threads of the largest block that can be launched", LESS, 0),
    "bound": ("__launch_bounds__", ANY, 0),
    "resident": ("threads on an SM at once", LESS, 0),
    "stack": ("bytes a thread in local memory: spills, arrays that are indexed", MORE, 0),
    "hot": ("what the rest describes: a loop's turn, or code that runs once", ANY, 0),
    "ld": ("bytes of the widest global load there", LESS, 0),
    "st": ("bytes of the widest global store", LESS, 0),
    "reads": ("bytes that a thread reads in a turn", ANY, 0),
    "writes": ("bytes that it writes", ANY, 0),
    "flight": ("KiB an SM asked for before the first is used", LESS, 0.02),
    "slots": ("instructions that a warp issues for 1 KiB", MORE, 0.02),
    "pipe": ("the busiest pipe", ANY, 0),
    "clocks": ("clocks of it for 1 KiB", MORE, 0.02),
    "calls": ("calls in the turn", MORE, 0),
    "slow": ("calls in the kernel: 64-bit division mostly", MORE, 0),
    "mma": ("products in a turn", ANY, 0),
    "lds": ("loads from shared memory for them", ANY, 0),
    "ratio": ("products a load from shared memory", LESS, 0.02),
    "ahead": ("bytes a thread that travel while products are made", LESS, 0),
    "mix": ("instructions of the turn by pipe", ANY, 0),
}
NUMBERS = [c for c in COLUMNS if c not in ("hot", "pipe", "mix")]


def text_of(value):
    if isinstance(value, float):
        return f"{value:.1f}"
    return "-" if value is None else str(value)


def write(path, rows, head):
    names = ["kernel", *COLUMNS]
    lines = [names] + [[name, *(text_of(rows[name][c]) for c in COLUMNS)] for name in sorted(rows)]
    wide = [max(len(line[i]) for line in lines) for i in range(len(names))]
    with open(path, "w", encoding="ascii") as out:
        for line in head:
            out.write(f"# {line}".rstrip() + "\n")
        for line in lines:
            cells = [line[0].ljust(wide[0])] + [c.rjust(w) for c, w in zip(line[1:], wide[1:])]
            out.write("  ".join(cells).rstrip() + "\n")


def read(path):
    """(rows, [comment lines])"""
    rows, head, names = {}, [], []
    with open(path, encoding="ascii") as lines:
        for line in lines:
            if line.startswith("#"):
                head.append(line[1:].strip())
            elif not names:
                names = line.split()[1:]
            elif line.strip():
                name, *cells = line.split()
                rows[name] = {c: _value(c, v) for c, v in zip(names, cells)}
    return rows, head


# What is said of blocks of the bound's size, or of an assumed one. Under another bound it is another
# thing, and nothing worse.
BY_BLOCK = ("launch", "resident", "flight")


def _value(column, cell):
    if cell == "-":
        return None
    if column not in NUMBERS:
        return cell
    return float(cell) if "." in cell else int(cell)


@dataclass
class Difference:
    kernel: str
    column: str
    old: object
    new: object
    worse: bool

    def __str__(self):
        return (f"{self.kernel}: {self.column} {text_of(self.old)} -> {text_of(self.new)} "
                f"({COLUMNS[self.column][0]})")


def compare(old, new):
    """[Difference] of the kernels that both tables have."""
    found = []
    for name in sorted(old.keys() & new.keys()):
        for column, (_, bad, slack) in COLUMNS.items():
            was, now = old[name].get(column), new[name][column]
            if text_of(was) == text_of(now):
                continue
            worse = False
            same_blocks = old[name].get("bound") == new[name]["bound"]
            if was is not None and now is not None and bad != ANY and (
                    same_blocks or column not in BY_BLOCK):
                # A tenth is what the table's digits show.
                room = slack * abs(was) + (0.1 if slack else 0)
                worse = now < was - room if bad == LESS else now > was + room
            found.append(Difference(name, column, was, now, worse))
    return found
