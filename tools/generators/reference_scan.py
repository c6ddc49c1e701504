"""The public declarations of warptape's headers with their comments: what reference.py writes pages of.

    headers(tree)               the public headers, as cmake/targets.cmake chooses them
    scan(tree, headers)         [Header], each with its declarations in order

libclang says what is declared and where, the source how it is written: signatures keep their default
arguments and lose macros and attributes. How a comment is found: above the declaration, or behind it
on its line; one name's overloads share the first one's, and declarations that follow each other
without an empty line the one above the first, where that has their name.
"""

import dataclasses
import pathlib
import re
import tempfile

from reference_source import BANNER, Source

PAGES = ("nn", "optim", "data", "dist")  # each has a page, and no declaration without a comment
FOLDERS = ("core", "autograd", "autograd/ops", "nn", "optim", "data", "dist", "kernels")
HIDDEN = ("detail", "internal", "std", "")  # namespaces; the last one's has no name
OURS_ALONE = re.compile(r"internal|for the (library|prologue|[Rr]ecorder)")  # banners
MACRO = re.compile(r"(WT_[A-Z_]+)\(")
PACKAGE = "python3-clang"


@dataclasses.dataclass
class Declaration:
    kind: str  # class, function, constructor, field, enum, enumerator, alias, constant, concept
    names: list
    scope: str  # "nn::Linear", without wt
    signature: str
    line: int
    comment: list = dataclasses.field(default_factory=list)  # lines
    head: list = dataclasses.field(default_factory=list)  # of them those above it
    last: int = 0  # line
    shared: bool = False  # the comment is that of a declaration before it
    members: list = dataclasses.field(default_factory=list)
    bases: list = dataclasses.field(default_factory=list)  # names of a class's
    access: str = "public"
    hidden: bool = False  # not for users: kept for what is derived from it
    internal: bool = False  # as a banner above it says
    excused: bool = False  # needs no comment
    overrides: bool = False
    of_base: str = ""  # the class that has the comment of what it overrides

    @property
    def name(self):
        return self.names[0]

    @property
    def path(self):  # "nn::Linear::forward"
        return "::".join(filter(None, (self.scope, self.name)))


@dataclasses.dataclass
class Header:
    path: str
    opening: list
    declarations: list


def headers(tree):
    found = []
    for folder in FOLDERS:
        for path in sorted((tree / folder).glob("*.h")):
            if not re.search(r"Internal[^A-Za-z]", path.read_text().split("#pragma once")[0]):
                found.append(str(path.relative_to(tree)))
    return found


KINDS = {
    "CLASS_DECL": "class", "STRUCT_DECL": "class", "CLASS_TEMPLATE": "class", "UNION_DECL": "class",
    "CXX_METHOD": "function", "FUNCTION_DECL": "function", "FUNCTION_TEMPLATE": "function",
    "CONVERSION_FUNCTION": "function", "CONSTRUCTOR": "constructor", "FIELD_DECL": "field",
    "VAR_DECL": "constant", "ENUM_DECL": "enum", "TYPE_ALIAS_DECL": "alias", "TYPEDEF_DECL": "alias",
    "TYPE_ALIAS_TEMPLATE_DECL": "alias", "UNEXPOSED_DECL": "concept", "CONCEPT_DECL": "concept",
}


def written_out(cursor):
    """The signature of what a macro declares."""
    words = []
    for argument in cursor.get_arguments():
        default = " = ..." if any(c.kind.is_expression() for c in argument.get_children()) else ""
        words.append(re.sub(r" ([&*]+) ?", r"\1 ", f"{argument.type.spelling} {argument.spelling}{default}"))
    const = " const" if cursor.is_const_method() else ""
    return f"{cursor.result_type.spelling} {cursor.spelling}({', '.join(words)}){const}".replace("wt::", "")


class Scan:
    """Of one header: the walk through what libclang has of it."""

    def __init__(self, text):
        self.source = Source(text)
        self.seen = set()  # functions
        self.declarations = []
        # Of each line whether a banner above it says that what follows is not for users.
        self.internal, column = [], None
        for number, line in enumerate(self.source.lines, 1):
            comment = self.source.lone_comment(number)
            banner = comment and BANNER.search(comment[1])
            indent = len(line) - len(line.lstrip())
            if banner:
                column = indent if OURS_ALONE.match(banner[1]) else None
            elif column is not None and line and line[0] != "#":
                if indent < column or line.startswith("}  // namespace wt"):
                    column = None
            self.internal.append(column is not None)

    def add(self, cursor, scope, into, hidden):
        if cursor.kind.name == "NAMESPACE":
            hidden = hidden or cursor.spelling in HIDDEN
            inner = "" if cursor.spelling == "wt" else cursor.spelling
            scope = "::".join(filter(None, (scope, inner)))
            for child in cursor.get_children():
                self.add(child, scope, self.declarations, hidden)
            return
        kind = KINDS.get(cursor.kind.name)
        if not kind or (kind in ("class", "enum") and not cursor.is_definition()):
            return
        parent = cursor.semantic_parent
        if parent.spelling == "std" or cursor.lexical_parent.kind.name == "NAMESPACE" != parent.kind.name:
            return  # a specialisation, a member's definition
        made = self.declaration(cursor, kind, scope)
        if not made or (cursor.get_usr() in self.seen and kind == "function"):
            return  # declared before
        self.seen.add(cursor.get_usr())
        made.internal = self.internal[made.line - 1]
        made.hidden = hidden or made.internal
        if made.access == "private" or (made.kind != "class" and made.excused and not made.comment):
            return
        if into and into[-1].line == made.line and into[-1].signature == made.signature:
            into[-1].names += made.names  # `double first, second;`
            return
        into.append(made)
        if kind in ("class", "enum"):
            inner = "::".join(filter(None, (scope, made.name)))
            for child in cursor.get_children():
                if child.kind.name == "CXX_BASE_SPECIFIER":
                    base = re.sub(r"<.*>", "", child.type.spelling)
                    made.bases.append(base.split("::")[-1])
                elif child.kind.name == "ENUM_CONSTANT_DECL":
                    made.members.append(self.enumerator(child, inner))
                else:
                    self.add(child, inner, made.members, made.hidden)
            made.excused = kind == "enum" and all(value.comment for value in made.members)

    def enumerator(self, cursor, scope):
        source, line = self.source, cursor.location.line
        one_line = cursor.semantic_parent.extent.start.line == line
        comment = [] if one_line else source.above(line) + source.behind(line)
        return Declaration("enumerator", [cursor.spelling], scope, cursor.spelling, line, comment, excused=True)

    def declaration(self, cursor, kind, scope):
        source = self.source
        name = re.sub(r"<.*>$", "", cursor.spelling) if kind == "constructor" else cursor.spelling
        if cursor.kind.name == "FUNCTION_TEMPLATE":
            if name.startswith("<deduction"):
                return None
            parent = cursor.semantic_parent.spelling
            kind = "constructor" if re.sub(r"<.*>$", "", name) == parent else kind
            name = parent if kind == "constructor" else name
        if not name or name == "operator=" or "(unnamed" in name:
            return None
        begin = source.place(cursor.extent.start.offset)  # attributes may stand before it
        first = source.first_line(begin)
        macro = MACRO.match(source.code, begin)
        if macro and (macro[1].startswith("WT_MISNAMED") or kind not in ("function", "class")):
            return None
        end = source.end(begin, kind in ("function", "constructor", "class", "enum"))
        if macro and kind == "class":  # core/error.h's; not what a macro calls by a name of its own
            if not re.search(rf"\b{name}\b", source.code[begin:end]):
                return None
        elif kind in ("class", "enum"):
            end = source.code.index("{", begin)
        text = source.signature(begin, end)
        if macro and text.startswith("WT_"):  # X(abs) X(acos) ...
            text = f"class {name}" if kind == "class" else written_out(cursor)
        if text.startswith("friend") or re.search(r"= (delete|default)$", text):
            return None
        if "no_unique_address" in source.code[source.starts[first - 1]:begin]:  # core/misnamed.h
            return None
        if kind == "concept":
            if not re.search(r"\bconcept " + name + r"\b", text):
                return None
            text = re.sub(r"(\bconcept " + name + r"\b).*", r"\1", text)
        elif kind == "enum":
            values = [child.spelling for child in cursor.get_children() if child.kind.name == "ENUM_CONSTANT_DECL"]
            text += " { " + ", ".join(values) + " }"
        elif kind == "constant" and len(text) > 100:
            text = re.sub(r" = .*|\{.*", "", text)
        access = cursor.access_specifier.name.lower()
        made = Declaration(kind, [name], scope, text, first)
        made.access = access if access in ("private", "protected") else "public"
        made.overrides = bool(re.search(r"\b(override|final)\b", source.code[begin:end])) and kind == "function"
        if made.access == "protected":
            if kind not in ("function", "constructor"):
                return None
            made.excused = not re.search(r"\bvirtual\b", text)
        if kind == "constructor":
            arguments = re.search(re.escape(name) + r"\((.*)", text)
            only = arguments and arguments[1].split(")")[0]
            made.excused = made.excused or only == "" or bool(
                re.fullmatch(r"(const )?" + name + r"(<.*>)?\s?&&?( \w+)?", only or "-"))
        above, behind = source.above(first), source.behind(source.line_of(end))
        made.comment = above + behind
        made.head, made.last = above, source.line_of(max(end, source.place(cursor.extent.end.offset)))
        return made

    def share(self, all_of):
        """Gives declarations without a comment that of those in front of them."""
        source = self.source
        for i, made in enumerate(all_of):
            self.share(made.members if made.kind == "class" else [])
            if made.comment or made.kind in ("class", "enum"):
                continue
            at, k, ends = made.line, i, (made.names[0], made.names[-1])  # "w1 to w4" names all of w1, w2, w3, w4
            while k > 0 and all_of[k - 1].kind not in ("class", "enum") and not any(
                    map(source.blank, range(all_of[k - 1].last + 1, at))):
                k, at = k - 1, all_of[k - 1].line
                known = all_of[k]
                if known.names == made.names and known.comment:
                    made.comment, made.shared = known.comment, True
                elif known.head and all(re.search(rf"\b{re.escape(n)}\b", " ".join(known.head)) for n in ends):
                    made.comment, made.shared = known.head, True
                elif "end()" in made.signature and "begin()" in known.signature:
                    made.comment, made.shared = known.comment, True
                elif known.names == made.names:
                    made.excused = True  # the first one is told of
                if made.comment or made.excused or known.head:
                    break


def libclang(tree, paths):
    """{path: cursors of its top level}"""
    from clang import cindex

    with tempfile.TemporaryDirectory() as here:
        (pathlib.Path(here) / "warptape").symlink_to(tree.resolve())
        text = "".join(f'#include "warptape/{path}"\n' for path in paths)
        skip_bodies = 0x40
        unit = cindex.Index.create().parse("all.cpp", ["-std=c++20", "-I", here], [("all.cpp", text)], skip_bodies)
        errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            where = str(errors[0].location.file or "").replace(f"{here}/warptape/", "")
            raise SystemExit(f"reference: {where}:{errors[0].location.line}: {errors[0].spelling}")
        found = {path: [] for path in paths}
        for cursor in unit.cursor.get_children():
            file = cursor.location.file
            path = file.name.removeprefix(f"{here}/warptape/") if file else ""
            if path in found:
                found[path].append(cursor)
        return unit, found


def settle(all_headers):
    """What a class has of its bases: comments of what it overrides, and members of hidden ones."""
    classes = {}

    def collect(declarations):
        for d in declarations:
            if d.kind == "class":
                classes.setdefault(d.name, d)
                collect(d.members)

    def in_base(made, of, seen):
        for base in (classes.get(name) for name in of.bases):
            if base and base.path not in seen:
                seen.add(base.path)
                for member in base.members:
                    if member.names == made.names and member.comment and not member.overrides:
                        return base
                if found := in_base(made, base, seen):
                    return found
        return None

    def inherited(of):
        for base in (classes.get(name) for name in of.bases):
            if base and base.hidden and base is not of:
                yield from (m for m in base.members if m.access == "public" and not m.internal
                            and m.kind in ("function", "field"))
                yield from inherited(base)

    def visit(declarations):
        for d in declarations:
            if d.kind != "class":
                continue
            for member in d.members:
                if member.overrides and not member.comment and (base := in_base(member, d, set())):
                    member.of_base, member.excused = base.path, True
            if not d.hidden:
                own = {name for m in d.members for name in m.names}
                d.members += [dataclasses.replace(m, hidden=False, excused=True) for m in inherited(d)
                              if not own & set(m.names)]
            visit(d.members)

    for header in all_headers:
        collect(header.declarations)
    for header in all_headers:
        visit(header.declarations)


def scan(tree, paths):
    unit, cursors = libclang(tree, paths)
    found = []
    for path in paths:
        text = (tree / path).read_text()
        of = Scan(text)
        for cursor in cursors[path]:
            of.add(cursor, "", of.declarations, False)
        of.share(of.declarations)
        opening = [line[2:].removeprefix(" ") for line in text.split("#pragma once")[0].split("\n") if line[:2] == "//"]
        found.append(Header(path, opening, of.declarations))
    settle(found)
    del unit
    return found
