"""docs/articles.md has all 121 rows of the articles' calls: in a comment of its code (// 24: ...,
// 4, 45: ...), as a table's or list's first cell, or as "row 11" in its text.
"""
import re
import sys
from pathlib import Path

ROWS = 121
PAGE = Path(__file__).parents[2] / "docs/articles.md"
PLACES = re.compile(r"// ([\d, ]+):|^\| ([\d, ]+) \||^- \*\*([\d, ]+)\*\*|\brows? ((?:\d+(?:, | and )?)+)")


def main():
    found = set()
    for line in PAGE.read_text().split("\n"):
        for groups in PLACES.findall(line):
            found.update(int(n) for n in re.findall(r"\d+", "".join(groups)))
    missing = [n for n in range(1, ROWS + 1) if n not in found]
    unknown = sorted(n for n in found if not 1 <= n <= ROWS)
    print(f"{ROWS - len(missing)} of {ROWS} rows", f"; missing: {missing}" if missing else "",
          f"; no such row: {unknown}" if unknown else "", sep="")
    return 1 if missing or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
