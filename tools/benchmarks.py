#!/usr/bin/env python3
"""docs/benchmarks.md: what was measured, where, by which command, and which goals are reached.

    tools/benchmarks.py --write     the page, from every file of bench/results
    tools/benchmarks.py --check     exit code 1 where the page is not what these files give

Every file has to be of a format that tools/results/benchmarks_page.py knows: exit code 2 names those
that are not, and lines that do not fit; nothing has been written then.
"""

import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools", "results"))
import benchmarks_page  # noqa: E402
from result_file import Unreadable  # noqa: E402

PAGE = os.path.join("docs", "benchmarks.md")


def check(path, text):
    try:
        with open(path, encoding="utf-8") as f:
            same = f.read() == text
    except FileNotFoundError:
        same = False
    if not same:
        print(f"{PAGE} is not what bench/results gives: tools/benchmarks.py --write")
    return 0 if same else 1


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(path + ".new", path)
    except BaseException:
        if os.path.exists(path + ".new"):
            os.remove(path + ".new")
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    parser.add_argument("--into", metavar="ROOT", default=ROOT, help="another checkout")
    o = parser.parse_args()
    try:
        text = benchmarks_page.document(o.into)
    except Unreadable as e:
        print(e, file=sys.stderr)
        return 2
    path = os.path.join(o.into, PAGE)
    if o.check:
        return check(path, text)
    write(path, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
