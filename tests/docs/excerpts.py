"""Code that a page shows and that cannot be a program of its own stands in a file that the tests build.

Such a block's fence names the file (```c++ tests/simt/row_sum.cu), and its lines must follow each
other there. A block of C++ without a file is a failure: nothing keeps it true. (```cpp blocks are
programs: tests/docs/snippets.py.)
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\S*) ?(\S*)$")


def blocks(page):
    """(line of the fence, language, file or "", text) of each fenced block."""
    opened, inside = None, []
    for number, line in enumerate(page.read_text().split("\n"), 1):
        fence = FENCE.match(line)
        if fence and opened is None:
            opened, inside = (number, *fence.groups()), []
        elif fence:
            yield (*opened, "\n".join(inside))
            opened = None
        else:
            inside.append(line)


def main():
    bad = checked = 0
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/course/**/*.md")]):
        for number, language, file, text in blocks(page):
            if language != "c++":
                continue
            if not file:
                problem = "is in no file that is built"
            elif not (ROOT / file).is_file():
                problem = f"names {file}, which is not there"
            else:
                checked += 1
                problem = "" if text in (ROOT / file).read_text() else f"differs from {file}"
            if problem:
                print(f"{page.relative_to(ROOT)}:{number}: this code {problem}")
                bad += 1
    print(f"{checked} excerpts checked")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
