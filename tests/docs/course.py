#!/usr/bin/env python3
"""The course (docs/course) holds together, in both languages.

    course.py [--root FOLDER] [--sources]

Of the sources: every chapter and every lab's page has its Chinese sibling, with as many headings, rows of
tables and list entries, the same blocks of code byte for byte and the same figures; what a block's fence names as its
file has these lines. Of the site that tools/course.sh builds (not with --sources): no warning; every link
leads to a page and a place that are there; nothing is loaded from elsewhere; each page leads to its sibling;
the search index has words of both languages. With a Chromium: no page is wider than 360 pixels, both schemes can be read, and
searches find from a file. Exit code 77, in words: no Sphinx.
"""

import argparse
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
FENCE = re.compile(r"^```(.*)$")
FOUND = {"en": ("gradients", "coalescing"), "zh": ("梯度", "损失缩放", "all-reduce")}  # searched for in a browser

failures = []


def fail(what):
    failures.append(what)
    print("FAILED:", what)


def pages(root):
    """(name in the site, English page, Chinese page)"""
    for path in sorted(Path(root, "docs/course").glob("*.md")):
        yield path.stem, path, path.parent / "zh" / path.name
    for path in sorted(Path(root, "labs").glob("[0-9]*/page.md")):
        lab = path.parent.name
        yield f"labs/{lab}", path, Path(root, "docs/course/zh/labs", lab + ".md")


def shape(path):
    """Of a page: its code, figures, and how many headings, rows and entries it has."""
    blocks, figures, shown, inside = [], [], [], None
    headings = rows = entries = 0
    for line in path.read_text().split("\n"):
        fence = FENCE.match(line)
        if fence and inside is None:
            inside = [fence[1]]
        elif fence:
            blocks.append("\n".join(inside))
            inside = None
        elif inside is not None:
            inside.append(line)
        elif line.startswith("    "):  # commands; what stands behind # is in the reader's language
            shown.append(line.split("#")[0].rstrip())
        else:
            headings += line.startswith("#")
            rows += line.startswith("|")
            entries += re.match(r"(- |\d+\. )", line) is not None
            figures += [os.path.basename(f) for f in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", line)]
    return {
        "blocks of code": blocks,
        "commands": shown,
        "figures": figures,
        "headings": headings,
        "rows of tables": rows,
        "entries of lists": entries,
    }


def sources(root):
    count, known = 0, set()
    for name, english, chinese in pages(root):
        count += 1
        known.add(chinese)
        if not chinese.is_file():
            fail(f"{name} has no Chinese page: {chinese.relative_to(root)}")
            continue
        ours, theirs = shape(english), shape(chinese)
        for what, value in ours.items():
            if value != theirs[what]:
                more = ""
                if isinstance(value, list):
                    at = next(
                        (i for i, (a, b) in enumerate(zip(value, theirs[what])) if a != b),
                        min(len(value), len(theirs[what])),
                    )
                    more = f", from number {at + 1}: {(value[at:at + 1] or ['none'])[0][:60]!r}"
                    value, other = len(value), len(theirs[what])
                else:
                    other = theirs[what]
                fail(
                    f"{chinese.relative_to(root)}: {what} differ from {english.relative_to(root)}'s ({other}, not {value}{more})"
                )
    for path in sorted(Path(root, "docs/course/zh").rglob("*.md")):
        if path not in known:
            fail(f"{path.relative_to(root)} is the translation of no page")
    for path in [*Path(root, "docs/course").rglob("*.md")]:
        for block in shape(path)["blocks of code"]:
            info, _, text = block.partition("\n")
            file = (info.split() + ["", ""])[1]
            if file and (not Path(root, file).is_file() or text not in Path(root, file).read_text()):
                fail(f"{path.relative_to(root)}: a block says that it is of {file}, which does not have these lines")
            if info.split()[:1] == ["text"] and not file:
                fail(f"{path.relative_to(root)}: a block of text names no file")
        for figure in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", path.read_text()):
            if not figure[0] or not (path.parent / figure[1]).is_file():
                fail(f"{path.relative_to(root)}: the figure {figure[1]} is not there, or is not described")
    print(f"{count} pages compared with their Chinese")


class Html(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.ids, self.lang = [], [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "html":
            self.lang = attrs.get("lang", "")
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        for key in ("src", "href") if tag in ("img", "script", "link") else ():
            if key in attrs and attrs.get("rel") not in ("prev", "next"):
                self.loaded.append(attrs[key])


def terms(path):
    """The words of a search index, from the text of searchindex.js."""
    text = path.read_text()
    return set(json.loads(text[text.index("(") + 1 : text.rindex(")")])["terms"])


def site(root, folder):
    there = {path: Html(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    links = 0
    for path, page in there.items():
        where = path.relative_to(folder)
        chinese = where.parts[0] == "zh"
        if not page.lang.startswith("zh" if chinese else "en"):
            fail(f"{where}: lang is {page.lang}")
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    fail(f"{where}: loads {link}")
                continue
            links += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                fail(f"{where}: {link} leads nowhere")
            elif parts.fragment and unquote(parts.fragment) not in (there[target].ids if target in there else ()):
                fail(f"{where}: {link}: no such place on that page")
        sibling = folder / where.relative_to("zh") if chinese else folder / "zh" / where
        if not any((path.parent / link).resolve() == sibling for link in page.links if not urlsplit(link).scheme):
            fail(f"{where}: does not lead to {sibling.relative_to(folder)}")
    for name, _, _ in pages(root):
        for prefix in ("", "zh/"):
            if folder / f"{prefix}{name}.html" not in there:
                fail(f"{prefix}{name}.html was not built")
    for where, words in (("", ("gradient", "warp")), ("zh/", ("梯度", "实验"))):
        missing = [w for w in words if w not in terms(folder / f"{where}searchindex.js")]
        if missing:
            fail(f"{where}searchindex.js does not have {', '.join(missing)}")
    print(f"{len(there)} pages, {links} links")


def browser_program():
    for name in (os.environ.get("WT_BROWSER"), "chromium", "chromium-browser", "google-chrome"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


def in_browser(folder):
    program = browser_program()
    if not program:
        print("no chromium (tools/setup.sh --browser): not looked at in a browser")
        return
    sys.path.insert(0, str(HERE.parent / "tools/wt/pages"))
    from browser import Browser  # noqa: PLC0415

    def luminance(page, style):
        red, green, blue = page.get(
            f"getComputedStyle(document.body).{style}.match(/[0-9.]+/g).slice(0,3).map(Number)"
        )
        return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255

    with Browser(program) as browser:
        files = sorted(folder.rglob("*.html"))
        for at, path in enumerate(files):
            dark = bool(at % 2)
            page = browser.open(path, width=360, height=800, dark=dark)
            where = path.relative_to(folder)
            wide = page.get("document.documentElement.scrollWidth")
            if wide > 360:
                fail(f"{where}: {wide} wide in a window of 360")
            for dark in (False, True):
                page.scheme(dark)
                paper, ink = luminance(page, "backgroundColor"), luminance(page, "color")
                if not (paper < 0.2 and ink > 0.7 if dark else paper > 0.9 and ink < 0.3):
                    fail(f"{where}, {'dark' if dark else 'light'}: paper {paper:.2f}, ink {ink:.2f}")
            broken = page.get("[...document.images].filter(i => !i.naturalWidth).length")
            if broken:
                fail(f"{where}: {broken} images are not shown")
            for fault in page.faults():
                if not fault.startswith("request: file://"):
                    fail(f"{where}: {fault}")
            page.close()
        for language, words in FOUND.items():
            for word in words:
                page = browser.open(folder / ("zh/" if language == "zh" else "") / "index.html")
                page.type("input[name=q]", word)
                page.get("document.querySelector('.find').submit()")
                page.wait("location.pathname.endsWith('search.html') && document.readyState === 'complete'")
                page.wait(
                    "((document.querySelector('.search-summary') || {}).innerText || '').length > 0"
                )  # it has ended
                if not page.get("document.querySelectorAll('#search-results li').length"):
                    fail(f"a search for {word} finds nothing")
                page.close()
        print(f"{len(files)} pages looked at in a browser, {sum(map(len, FOUND.values()))} searches")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE.parents[1])
    parser.add_argument("--sources", action="store_true")
    args = parser.parse_args()
    sources(args.root)
    if args.sources or failures:
        return 1 if failures else 0
    build = ["bash", str(args.root / "tools/course.sh")]
    with tempfile.TemporaryDirectory(prefix="wt-course-") as here:
        for options in (["--check"], ["--out", here + "/site"]):
            done = subprocess.run(
                build + options, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if done.returncode == 77:
                print("SKIPPED:", done.stdout.strip().replace("\n", "; "))
                return 77
            if done.returncode:
                fail(f"tools/course.sh {options[0]}: exit code {done.returncode}: {done.stdout.strip()}")
                return 1
        site(args.root, Path(here, "site"))
        if not failures:
            in_browser(Path(here, "site"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
