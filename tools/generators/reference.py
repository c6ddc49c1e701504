#!/usr/bin/env python3
"""Writes docs/reference/*.md, a page for each of nn, optim, data and dist, and docs/digest.md, every
public signature on a line with the first sentence of its comment, from the comments of the headers.

    tools/generators/reference.py             write them
    tools/generators/reference.py --check     exit code 1 if a comment is missing or a page differs
    tools/generators/reference.py --missing   tell which comments are missing
    --tree DIR                                of another tree

Needs libclang's Python module (tools/setup.sh --tests); exit code 77: it is not there.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import reference_scan as scan

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRITTEN = "Written by tools/generators/reference.py from the headers: do not edit.\n"
ABOUT = {
    "nn": "Modules, models, losses, metrics, and what saves and loads them.",
    "optim": "Optimizers, schedules, clipping, the training step.",
    "data": "Datasets, loaders, samplers, transforms, file formats.",
    "dist": "Many ranks: communicators, data parallelism, sharding, pipelines.",
}
BARE = re.compile(r"\b(?:[a-z]\w*::)+")  # namespaces
ABBREVIATED = re.compile(r"(?:\b(?:al|e\.g|i\.e|cf|vs|resp|approx|sec|fig|eq|no)|\b[A-Z])\.$")


# --- text ---


def paragraphs(lines):
    """Markdown of a comment: what is indented is code."""
    text, code = [], []

    def end_code():
        while code and not code[-1]:
            code.pop()
        if code:
            if text and text[-1]:
                text.append("")
            text.extend(["```cpp", *code, "```", ""])
            code.clear()

    for line in lines:
        if line.startswith("  ") or (code and not line):
            code.append(line[2:])
        else:
            end_code()
            text.append(escaped(line))
    end_code()
    while text and not text[-1]:
        text.pop()
    return text


def escaped(line):
    """What is no code is not to become a tag or emphasis."""
    parts = line.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"<(?=[A-Za-z/])|\*(?=\S)|(?<!\w)_(?=_?\w)|(?<=\s_)_", r"\\\g<0>", parts[i])
    return "`".join(parts)


def first_sentence(lines):
    kept = []
    for line in lines:
        if line.startswith("  ") or (not line and kept):
            break
        kept.append(line)
    text = " ".join(kept)
    for end in re.finditer(r"\.(?=\s+[A-Z`\"\[(0-9<]|$)", text):
        sentence = text[:end.end()]
        if not ABBREVIATED.search(sentence) and sentence.count("(") <= sentence.count(")"):
            return sentence
    return text


def code(text):
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def comment_of(declaration):
    if declaration.of_base and not declaration.comment:
        return [f"As of {declaration.of_base}."]
    return declaration.comment


def groups(declarations):
    """Of those in a row that share a comment: one group."""
    found = []
    for d in declarations:
        if found and d.shared and found[-1][0].kind == d.kind and d.comment in (
                found[-1][0].comment, found[-1][0].head):
            found[-1].append(d)
        else:
            found.append([d])
    return found


def visible(declarations):
    return [d for d in declarations if not d.hidden]


# --- pages ---


class Anchors:
    """A heading's link, as GitHub makes it."""

    def __init__(self):
        self.seen = {}

    def add(self, heading):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = self.seen.get(anchor, 0)
        self.seen[anchor] = count + 1
        return f"{anchor}-{count}" if count else anchor


def bullet(group):
    text = ",\n  ".join(code(d.signature) + (" (protected)" if d.access == "protected" else "") for d in group)
    body = paragraphs(comment_of(group[0]))
    if not body:
        return [f"- {text}"]
    if body[0].startswith("```"):
        return [f"- {text}:", "", *("  " + line if line else "" for line in body), ""]
    if len(body) == 1:
        return [f"- {text}: {body[0]}"]
    fenced = any(line.startswith("```") for line in body)
    return [f"- {text}:", *("  " + line if line else "" for line in body), *([""] if fenced else [])]


def entry(group, anchors, index, level=3):
    """A class, or functions of one name and comment."""
    first = group[0]
    names = dict.fromkeys("::".join(filter(None, (d.scope, n))) for d in group for n in d.names)
    heading = ", ".join(names)
    index.append((heading, anchors.add(heading)))
    lines = [f"{'#' * level} {heading}", ""]
    lines += ["```cpp", *(d.signature + ("" if d.kind == "class" else ";") for d in group), "```", ""]
    lines += paragraphs(comment_of(first)) + [""]
    if first.kind == "enum":
        said = [m for m in first.members if m.comment]
        lines += [line for m in said for line in bullet([m])] + ([""] if said else [])
    if first.kind == "class":
        inside = visible(first.members)
        flat = [m for m in inside if m.kind not in ("class", "enum")]
        for g in groups(flat):
            lines += bullet(g)
        lines += [""] if flat else []
        for nested in inside:
            if nested.kind in ("class", "enum"):
                lines += entry([nested], anchors, index, level)
    return lines


def page(room, all_headers):
    anchors, body, names = Anchors(), [], []
    anchors.add(f"Reference: {room}")
    anchors.add("Names")
    for header in all_headers:
        shown = visible(header.declarations)
        if not header.path.startswith(room + "/") or not shown:
            continue
        index, link = [], anchors.add(header.path)
        body += [f"## {header.path}", "", *paragraphs(header.opening), ""]
        for group in groups(shown):
            body += entry(group, anchors, index)
        names.append(f"- [{header.path}](#{link}): " + ", ".join(f"[{BARE.sub('', n)}](#{a})" for n, a in index))
    head = [f"# Reference: {room}", "", WRITTEN, ABOUT[room] + " Names are those of namespace `wt`.", ""]
    return tidy([*head, "## Names", "", *names, "", *body])


def digest(all_headers):
    lines = ["# Digest", "", WRITTEN,
             "Every public signature, header by header, with the first sentence of its comment: one page for search and",
             'for programs that read. `#include "warptape/warptape.h"` has most of it, `#include "warptape/nn/linear.h"` a',
             "header alone; names are in the namespace that stands above them. The whole comments are in",
             ", ".join(f"docs/reference/{room}.md" for room in scan.PAGES) + " and docs/operators.md.", ""]

    def add(declarations, indent):
        for d in visible(declarations):
            signature = d.signature if d.access == "public" else "protected: " + d.signature
            said = escaped(first_sentence(comment_of(d)))
            lines.append(f"{indent}- {code(signature)}" + (f": {said}" if said else ""))
            if d.kind == "class":
                add(d.members, indent + "  ")

    for header in all_headers:
        shown = visible(header.declarations)
        if not shown:
            continue
        lines.extend([f"## {header.path}", "", escaped(first_sentence(header.opening)), ""])
        scope = None
        for d in shown:
            if d.scope != scope:
                scope = d.scope
                lines.extend([*([""] if lines[-1] else []), f"namespace `{'::'.join(filter(None, ('wt', scope)))}`", ""])
            add([d], "")
        lines.append("")
    return tidy(lines)


def tidy(lines):
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip() + "\n")


# --- checks ---


def missing(all_headers):
    found = []

    def look(declarations, path):
        for d in visible(declarations):
            if not d.excused and not d.comment:
                name = " and ".join(d.names) if len(d.names) > 1 else d.name
                of = d.scope.split("::")[-1] if d.scope.rpartition("::")[2][:1].isupper() else ""
                found.append(f"{path}:{d.line}: {of + '::' if of else ''}{name} has no comment")
            if d.kind == "class":
                look(d.members, path)

    for header in all_headers:
        if header.path.split("/")[0] in scan.PAGES:
            look(header.declarations, header.path)
            if not any(header.opening):
                found.append(f"{header.path}:1: the header has no comment above its #pragma once")
    return found


def with_libclang():
    """Goes on in a Python that has libclang's module: the system's may, beside a newer one on PATH."""
    try:
        import clang.cindex  # noqa: F401
        return
    except ImportError:
        pass
    for python in ("/usr/bin/python3",):
        asked = [python, "-c", "import clang.cindex"]
        if os.path.exists(python) and os.path.realpath(python) != os.path.realpath(sys.executable) and not (
                subprocess.run(asked, stderr=subprocess.DEVNULL).returncode):
            os.execv(python, [python, *sys.argv])
    print(f"SKIPPED: no libclang for Python (apt-get install {scan.PACKAGE}, or tools/setup.sh --tests)")
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--missing", action="store_true", help="tell which comments are missing, write nothing")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT, help="of another tree")
    options = parser.parse_args()
    with_libclang()

    tree = options.tree.resolve()
    all_headers = scan.scan(tree, scan.headers(tree))
    bad = missing(all_headers)
    print("".join(line + "\n" for line in bad), end="")
    if options.missing:
        return 1 if bad else 0
    pages = {f"docs/reference/{room}.md": page(room, all_headers) for room in scan.PAGES}
    pages["docs/digest.md"] = digest(all_headers)
    stale = [path for path, text in pages.items()
             if not (tree / path).is_file() or (tree / path).read_text() != text]
    for path in stale:
        if options.check:
            print(f"{path} is not what the headers say: run tools/generators/reference.py and look at the difference")
        else:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(pages[path])
            print(f"{path} written")
    print(f"{len(all_headers)} headers, {len(bad)} comments missing, {len(stale)} of {len(pages)} pages differed")
    return 1 if bad or (options.check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
