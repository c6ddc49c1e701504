"""What the calls of a gate have done so far, in files that a cut leaves whole but for their last
line."""

import json
import os


def mend(path):
    """A torn last line gets its end, so that what follows is a line of its own."""
    try:
        with open(path, "rb+") as f:
            if f.seek(0, os.SEEK_END) and (f.seek(-1, os.SEEK_END), f.read(1))[1] != b"\n":
                f.write(b"\n")
    except FileNotFoundError:
        pass


def lines_of(path):
    """The objects of a file of JSON lines, without what is torn."""
    found = []
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    found.append(row)
    except FileNotFoundError:
        pass
    return found


def append(path, row):
    mend(path)
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(row) + "\n")
        f.flush()
        os.fsync(f.fileno())


def put_aside(path, other, wanted):
    """Rows for which wanted(row) is true move to the other file; both are whole at any time."""
    rows = lines_of(path)
    for row in rows:
        if wanted(row):
            append(other, row)
    text = "".join(json.dumps(row) + "\n" for row in rows if not wanted(row))
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


class Journal:
    """One line an event. A part consists of items, which are journaled as they end; "passed",
    "SKIPPED: why", "FAILED: why" are results."""

    def __init__(self, path):
        self.path = path
        self.events = lines_of(path)

    def add(self, **event):
        self.events.append(event)
        append(self.path, event)

    def value(self, key):
        """The latest that was said under this key, or None."""
        return next((e[key] for e in reversed(self.events) if key in e), None)

    def items(self, part):
        """name -> event, of the items that have ended."""
        ended = {}
        for e in self._of(part):
            if "item" in e:
                ended[e["item"]] = e
        return ended

    def failed(self, part):
        return [n for n, e in self.items(part).items() if e["result"].startswith("FAILED")]

    def at(self, part, item=None):
        """Where the part, or this item of it, goes on; None: at its beginning."""
        places = [e["at"] for e in self._of(part) if "at" in e and e.get("of") == item]
        return places[-1] if places else None

    def result(self, part):
        """Of a part that has ended; None while something of it is left."""
        ends = [e["result"] for e in self._of(part) if "result" in e and "item" not in e]
        return ends[-1] if ends else None

    def seconds(self, part):
        return sum(e.get("spent", 0) for e in self._of(part))

    def _of(self, part):
        """Events of the part since it was begun anew, the last time."""
        mine = [e for e in self.events if e.get("part") == part]
        for i in range(len(mine) - 1, -1, -1):
            if mine[i].get("anew"):
                return mine[i + 1 :]
        return mine
