"""A header as text: where its comments are, where a declaration ends, how it reads without macros."""

import re

BANNER = re.compile(r"--- (.*) ---$")
NOISE = re.compile(r"\b(WT_[A-Z_]+(?! ?\()|inline|extern|constinit|override|final)\b ?")
ATTRIBUTE = re.compile(r"\[\[[^\]]*\]\] ?")
IN_PLACE = re.compile(r"WT_(?:WRITES|IN_PLACE)\((\w+)(?:, (.*))?\)$")  # core/tensor.h


class Source:
    """A header's text: where its comments are, and where a declaration ends."""

    TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)

    def __init__(self, text):
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.comments = {}  # line: (column, text)
        blanked = list(text)
        for token in self.TOKENS.finditer(text):
            if token[0].startswith("//"):
                line = text.count("\n", 0, token.start()) + 1
                words = re.sub(r"\s*\bNOLINT\b.*", "", token[0][2:].rstrip())
                self.comments[line] = (token.start() - self.starts[line - 1], words[1:])
            if token[0].startswith("/"):
                blanked[token.start():token.end()] = re.sub(r"[^\n]", " ", token[0])
            else:
                blanked[token.start() + 1:token.end() - 1] = "_" * (len(token[0]) - 2)
        self.text = text
        self.code = "".join(blanked)  # comments are spaces, strings are underscores

    def place(self, offset):
        """libclang counts bytes."""
        return offset if self.text.isascii() else len(self.text.encode()[:offset].decode(errors="ignore"))

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def lone_comment(self, line):
        """(column, text) of a line that has nothing else; None"""
        if line in self.comments and not self.code[self.starts[line - 1]:self.starts[line] - 1].strip():
            return self.comments[line]
        return None

    def blank(self, line):
        return not self.lines[line - 1].strip()

    def first_line(self, offset):
        """Of the declaration that has this place: attributes and `template` may stand above it."""
        line = self.line_of(offset)
        while line > 1 and not self.blank(line - 1):
            before = self.code[self.starts[line - 2]:self.starts[line - 1] - 1].strip()
            if not before or before[-1] in ";{}:" or before.startswith("#"):
                break
            line -= 1
        return line

    def above(self, line):
        column = len(self.lines[line - 1]) - len(self.lines[line - 1].lstrip())
        found = []
        while line > 1:
            comment = self.lone_comment(line - 1)
            if not comment or comment[0] != column or BANNER.search(comment[1]):
                break
            found.insert(0, comment[1])
            line -= 1
        return found if any(found) else []

    def behind(self, line):
        if line not in self.comments or self.lone_comment(line):
            return []
        column, text = self.comments[line]
        found = [text]
        while line < len(self.lines) and (more := self.lone_comment(line + 1)) and more[0] == column:
            found.append(more[1])
            line += 1
        return found if any(found) else []

    def end(self, offset, is_function):
        """Where the semicolon or the body of the declaration at this place begins."""
        depth, opened, of_requires = 0, [], False
        i, seen = offset, False  # seen: a parameter list
        while i < len(self.code):
            c = self.code[i]
            if depth == 0 and c == ";":
                break
            if depth == 0 and is_function and seen and c == ":" and ":" not in self.code[i - 1] + self.code[i + 1]:
                break
            if depth == 0 and c == "{" and is_function and not of_requires:
                break
            if c in "([{":
                opened.append(self.code[:i].rstrip().endswith("requires") if depth == 0 and c == "(" else of_requires)
                depth += 1
            elif c in ")]}":
                if depth == 0:
                    break
                depth -= 1
                asked = opened.pop()
                if depth == 0 and c == ")":
                    # of requires(x) { ... }, whose braces are no body
                    after = self.code[i + 1:i + 2000].lstrip()
                    of_requires = asked and after.startswith("{")
                    seen = seen or not asked
                elif depth == 0:
                    of_requires = False
            i += 1
        return i

    def signature(self, begin, end):
        text = re.sub(r"\s+", " ", "".join(
            c if blank != " " else " " for c, blank in zip(self.text[begin:end], self.code[begin:end])))
        text = ATTRIBUTE.sub("", NOISE.sub("", text)).strip()
        macro = IN_PLACE.match(text)
        return f"Tensor& {macro[1]}({macro[2] or ''})" if macro else text
