"""Makes a program of a page's ```cpp blocks: what docs/*.md and README.md show is compiled and run.

    snippets.py PAGE.md OUT.cpp

The blocks of a page run in order and share their names. What begins at the left margin with struct,
class, template, static, constexpr, namespace or #include goes before main(); a block with its own
main() is only compiled. Two comments at the end of a statement are checked:

    y.item();             // -> 6             its value, printed by str(), is this text
    x.mul_(2);            // throws InplaceError: on a leaf       and the message has these words

Fragments that cannot stand alone are fenced as ```c++ and left out.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_SCOPE = re.compile(r"(struct|class|template|static|constexpr|namespace|#include|using namespace)\b|#")
PRELUDE = '''// Made from {page} by tests/docs/snippets.py.
#include <cmath>
#include <cstdio>
#include <string>
#include <typeinfo>

#include "warptape/warptape.h"

using namespace wt;
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wreturn-type"  // main() under another name

namespace {{
int bad = 0, checked = 0;
[[maybe_unused]] void expect(int line, const std::string& got, const std::string& want) {{
  ++checked;
  if (got == want) return;
  ++bad;
  std::printf("{page}:%d: the page says %s, it is %s\\n", line, want.c_str(), got.c_str());
}}
template <class E, class F>
[[maybe_unused]] void expect_throw(int line, const std::string& words, F f) {{
  ++checked;
  try {{
    f();
    std::printf("{page}:%d: nothing is thrown\\n", line);
  }} catch (const E& e) {{
    if (std::string(e.what()).find(words) != std::string::npos) return;
    std::printf("{page}:%d: not among the words: %s\\n%s\\n", line, words.c_str(), e.what());
  }}
  ++bad;
}}
}}  // namespace
'''


def blocks(text):
    """(line of its first line, lines) of each ```cpp block."""
    found, inside, kind = [], None, ""
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r"\s*```(\S*)", line)
        if fence and inside is None:
            inside, kind = (number + 1, []), fence[1]
        elif fence:
            if kind == "cpp":
                found.append(inside)
            inside = None
        elif inside is not None:
            inside[1].append(line)
    return found


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def statement(line, number):
    """The line with its closing comment turned into a check."""
    value = re.match(r"\s*(.*\S);\s*// -> (.*\S)\s*$", line)
    if value:
        return f"expect({number}, str({value[1]}), {quoted(value[2])});"
    thrown = re.match(r"\s*(.*\S;)\s*// throws (\w+): (.*\S)\s*$", line)
    if thrown:
        return f"expect_throw<{thrown[2]}>({number}, {quoted(thrown[3])}, [&] {{ {thrown[1]} }});"
    return line


def split(first, lines, page):
    """The block's lines for file scope and for main()."""
    outside, body, depth, target = [], [], 0, None
    for number, line in enumerate(lines, first):
        code = re.sub(r'"(\\.|[^"\\])*"|//.*', "", line)
        if depth == 0 and line.strip():
            target = outside if FILE_SCOPE.match(line) else body
        if target is None:
            continue
        mark = [f'#line {number} "{page}"'] if depth == 0 else []
        target += mark + [statement(line, number) if target is body else line]
        depth += sum(code.count(c) for c in "{(") - sum(code.count(c) for c in "})")
    return outside, body


def program(path):
    path = path.resolve()
    page = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    outside, body = [], []
    for count, (first, lines) in enumerate(blocks(path.read_text())):
        if any(re.match(r"int main\(", l) for l in lines):
            lines = [re.sub(r"^int main\(", f"int program_{count}(", l) for l in lines]
            outside += [f'#line {first} "{page}"', *lines]
            continue
        more, steps = split(first, lines, page)
        outside += more
        body += steps
    return "\n".join([PRELUDE.format(page=page), *outside, "", "int main() {", *body,
                      f'std::printf("{page}: %d statements checked\\n", checked);',
                      "return bad == 0 ? 0 : 1;", "}", ""])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(program(Path(sys.argv[1])))
