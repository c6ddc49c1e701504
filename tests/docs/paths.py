"""Every file and folder of this tree that a page names is there.

What looks like one: a word after a folder of the tree and a slash, which may begin as an #include
does (`warptape/core/shape.h`), and in backquotes what ends like a source file, which may leave out
the folders before (`common/rows.h`). x, X, NAME, <family> and *
stand for names; EXAMPLES are the reader's own files.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPED = ("build", "runs", "shared", ".git")
FOLDERS = [p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith((".", *SKIPPED))]
INCLUDED = re.compile(r"(?<![\w./])warptape/(?=(?:" + "|".join(FOLDERS) + ")/)")
WHOLE = re.compile(r"(?<![\w./<-])((?:" + "|".join(FOLDERS) + r")/[\w./{},*<>-]*[\w/*>}])")
SOURCE = re.compile(r"`([\w./{},*<>-]+\.(?:h|inc|cpp|cu|cuh|sh|py|cmake|md))(?::\d+)?[`, ]")
LINK = re.compile(r"\]\([^)]*\)")  # from the page's folder: tests/docs/course.py
STANDS_FOR_A_NAME = re.compile(r"[*<>]|^[A-Z]+/|(?:^|/)(?:x|X|NAME)(?:_\w+)?(?:\.|$)")
EXAMPLES = {"net.cpp", "model.cpp"}
MADE = ("bench/peers/.venv/", "bench/results/nvidia-")  # by bench/peers/setup.sh; by a user's GPU


def files():
    for top in ROOT.iterdir():
        if top.name.startswith(SKIPPED):
            continue
        for path in [top, *top.rglob("*")] if top.is_dir() else [top]:
            yield "/" + str(path.relative_to(ROOT))


def alternatives(path):
    """a/{b,c}.h is a/b.h and a/c.h."""
    braces = re.match(r"(.*)\{([^}]*)\}(.*)$", path)
    return [braces[1] + one + braces[3] for one in braces[2].split(",")] if braces else [path]


def main():
    there = set(files())
    ends = {path[i:] for path in there for i, c in enumerate(path) if c == "/"}
    bad = checked = 0
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        if page.name == "CHANGELOG.md" or page.parts[-3:-1] == ("zh", "labs"):  # tells of files that are gone; of a student's
            continue
        for number, line in enumerate(page.read_text().split("\n"), 1):
            line = INCLUDED.sub("", LINK.sub("]", line) if "course" in page.parts else line)
            named = [(p, there) for p in WHOLE.findall(line)]
            named += [(p, ends) for p in SOURCE.findall(line)]
            for path, among in ((p, a) for found, a in named for p in alternatives(found)):
                if path in EXAMPLES or path.startswith(MADE) or STANDS_FOR_A_NAME.search(path):
                    continue
                checked += 1
                path = path.rstrip("/")
                if not any("/" + path + e in among for e in ("", ".h", ".cpp", ".sh")):
                    print(f"{page.relative_to(ROOT)}:{number}: {path} is not there")
                    bad += 1
    print(f"{checked} paths checked")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
