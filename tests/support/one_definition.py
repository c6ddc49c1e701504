"""A type of one name has one definition, of all files that one program is linked from.

one_definition.py [TREE]: says which types of a namespace two files define; exit code 1 if any.
The linker keeps the members of either for both, and says nothing.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

LIBRARY = ["core", "kernels", "autograd", "nn", "optim", "data", "dist"]
# What is linked together, beside the library.
PROGRAMS = {"wt_tests": ["tests"], "wt": ["tools", "bench"]}
# Programs of their own.
ALONE = ["tools/examples/", "tests/consumers/", "tests/compile_fail/", "tests/fuzz/", "bench/peers/"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|'
    r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\s*([\w:]*)\s*$|extern\s*$")
MARK = r"(?:(?:WT_\w+|alignas\([^)]*\))\s+)*"
TYPE = re.compile(r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+" + MARK +
                  r"(\w+)\s*(?:final\s*)?(?::(?!:)[^;=()]*)?$")


def types_of(text):
    """Qualified names of the types that a file defines in named namespaces."""
    text = NOISE.sub(" ", text)
    scopes, begin, found = [], 0, set()  # a scope: its namespace's name, or None for anything else
    for at in re.finditer(r"[{};]", text):
        head, begin = text[begin:at.start()].strip(), at.end()
        if at[0] == "}":
            if scopes:
                scopes.pop()
        elif at[0] == "{":
            space = NAMESPACE.search(head)
            if space:
                anonymous = head.endswith("namespace")
                scopes.append(None if anonymous else space[1] or "")
                continue
            kind = TYPE.search(head)
            if kind and None not in scopes:
                found.add("::".join([s for s in scopes if s] + [kind[1]]))
            scopes.append(None)
    return found


def files_below(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(tuple(ALONE)):
                yield name, path


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    bad = []
    for folders in PROGRAMS.values():
        places = defaultdict(list)
        for name, path in files_below(root, LIBRARY + folders):
            for t in types_of(path.read_text()):
                places[t].append(name)
        bad += [f"{t} is defined in {' and in '.join(p)}" for t, p in places.items() if len(p) > 1]
    for line in sorted(set(bad)):
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
