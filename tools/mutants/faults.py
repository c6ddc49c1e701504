"""One-line faults: which lines can have one, and which are drawn by a seed.

A fault is a change of one line by one rule below. Lines that cannot change a result are left out:
comments, preprocessor lines, the text of messages, and what only decides how fast something is
(ranks, prices, block and grain sizes, instruction sets). Narrowed integers are left out in kernels: nothing that
fits a test machine has 2^31 elements.
"""
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

SOURCES = [
    "kernels/*.h", "kernels/*/*.*", "autograd/*.cpp", "autograd/*.h", "autograd/*/*.*",
    "autograd/ops/internal/*.*", "nn/*.h", "nn/*/*.*", "optim/*.cpp", "optim/*.h", "optim/*/*.*", "core/slices.*",
    "core/shape.*", "core/tensor.cpp", "core/memory/caching_allocator.cpp", "core/factories.cpp", "core/frame.cpp",
    "core/memory/copy_bytes.cpp", "core/geometry.h",
]
# Without a GPU nothing runs these; or they hold declarations only.
NOT_SOURCES = re.compile(
    r"kernels/(cuda/|simt/|dispatch/(all|run)\.cpp|cpu/isa|contract\.h|run\.h|device/launch\.cpp)|_cublas"
    r"|autograd/(ops\.h|op_list|grad_check)")
SKIPPED_LINE = re.compile(
    r"^\s*(#|//|template\b|using\b|namespace\b|static_assert\b|struct\b|class\b|friend\b|enum\b"
    r"|inline namespace\b|WT_CONTRACT|WT_VARIANTS|WT_SHARED|public:|private:|case\b|typedef\b)"
    r"|\bfail<|\bthrow\b|\bstr\(|\bwhy|\.name\b|__launch_bounds__|\boperator\b|WT_COLD|noreturn")
SPEED_ONLY = re.compile(
    r"\b(rank|bytes|flops|grain|price|prefetch|hint|reserve|unroll|pragma|workspace|parallel"
    r"|threads|kGrain\w*|kThreads\w*|kMin\w*|kBlock\w*|kTile\w*|kChunk\w*|occupancy|blocks_for\w*"
    r"|grid\w*|unlikely|likely|assert|profil\w*|kUse\w*)\b", re.I)

CLASSES = ["index", "formula", "saved", "version", "bound", "cast", "comparison", "sign",
           "arguments", "return"]
COMMUTATIVE = {"max", "min", "add", "mul", "maximum", "minimum", "eq", "ne", "fmax", "fmin",
               "logical_and", "logical_or", "swap", "times", "sizeof", "same", "if", "for", "while",
               "return", "switch", "f"}
NAMES = {"max": "min", "min": "max", "sin": "cos", "cos": "sin", "exp": "log", "log": "exp",
         "sqrt": "rsqrt", "rsqrt": "sqrt", "sub": "add", "add": "sub", "mul": "div", "div": "mul",
         "maximum": "minimum", "minimum": "maximum", "tanh": "sin", "abs": "neg", "gt": "lt",
         "lt": "gt", "ge": "le", "le": "ge", "eq": "ne", "ne": "eq", "narrow": "select",
         "logical_and": "logical_or", "logical_or": "logical_and", "triu": "tril", "tril": "triu"}


@dataclass(frozen=True)
class Fault:
    file: str
    line: int  # from 1
    kind: str
    before: str
    after: str

    def words(self):
        after = self.after.strip() or "(nothing)"
        return f"{self.before.strip()}  ->  {after}"


def masked(line):
    """The line with the inside of strings and comments blanked, of the same length."""
    out = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'',
                 lambda m: '"' + "~" * (len(m[0]) - 2) + '"', line)
    at = out.find("//")
    return out if at < 0 else out[:at] + " " * (len(out) - at)


def arguments(code, opening):
    """(begin, end) of each argument of the call whose parenthesis is at `opening`, or None."""
    depth, begin, found = 0, opening + 1, []
    for at in range(opening, len(code)):
        c = code[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return found + [(begin, at)]
        elif c == "," and depth == 1:
            found.append((begin, at))
            begin = at + 1
            while begin < len(code) and code[begin] == " ":
                begin += 1
    return None


def swapped(match, table):
    return match.string[:match.start()] + table[match[0]] + match.string[match.end():]


def other_digit(text):
    return str(int(text) - 1) if int(text) > 0 else "1"


# Each rule yields (begin, end, replacement) for a line of masked code.
def index_faults(code, path):
    for m in re.finditer(r"\b(start|step|stride|strides|size|shape|inner_step|axis_step|view|at"
                         r"|geometry|input|wants|put)(\[|\()(\d)", code):
        yield m.start(3), m.end(3), other_digit(m[3])
    if not path.startswith("kernels/"):
        return
    for m in re.finditer(r"\w\[([a-z]\w*)\]", code):
        yield m.end(1), m.end(1), " + 1"
    for m in re.finditer(r"\[[^\[\]]* ([*+]) [^\[\]]*\]", code):
        yield m.start(1), m.end(1), "-" if m[1] == "+" else "+"
    for m in re.finditer(r"\b(threadIdx|blockIdx)\.x\b", code):
        yield m.start(), m.end(), f"({m[0]} + 1)"
    for m in re.finditer(r" (%|/) (?=[a-z])", code):
        yield m.start(1), m.end(1), "/" if m[1] == "%" else "%"


def formula_faults(code, _path):
    flips = {"+": "-", "-": "+", "*": "+", "/": "*"}
    if not code.lstrip().startswith("for "):
        for m in re.finditer(r"(?<=[\w)\]]) ([-+*/]) (?=[\w(\-])", code):
            yield m.start(1), m.end(1), flips[m[1]]
        for m in re.finditer(r"(?<=[\w)\]])(\*|/) (?!const)(?=[\w(])", code):  # clang-format in macros: gy* b
            yield m.start(1), m.end(1), flips[m[1]]
    for m in re.finditer(r"\b(\d+\.\d*)", code):
        yield m.start(1), m.end(1), repr(float(m[1]) * 1.25 + (0.25 if float(m[1]) == 0 else 0))
    for m in re.finditer(r"\b(?:T|A|float|double|num<T>)\(([01])\)", code):
        yield m.start(1), m.end(1), "2" if m[1] == "1" else "1"
    for m in re.finditer(r"(?<![\w.:>])(" + "|".join(NAMES) + r")(?=\()", code):
        yield m.start(1), m.end(1), NAMES[m[1]]


def saved_faults(code, _path):
    for m in re.finditer(r"\b(saved|save_input|save_input_if|saved_or|save_extra)\((\d)", code):
        yield m.start(2), m.end(2), other_digit(m[2])
    m = re.match(r"\s*(?:s|scope)\.save_(?:input|output|extra|input_if)\(.*\);\s*$", code)
    if m:
        yield 0, len(code), ""
    for m in re.finditer(r"\bkNeeds(A|B|Out)\b", code):
        others = {"A": "kNeedsB", "B": "kNeedsA", "Out": "kNeedsA"}
        yield m.start(), m.end(), others[m[1]]
    for m in re.finditer(r"\bsave_(input|output)\(", code):
        if "save_output(" in m[0]:
            yield m.start(), m.end(), "save_input(0" + (", " if code[m.end()] != ")" else "")


def version_faults(code, _path):
    if re.match(r"\s*(\+\+[\w>.\-]*version|[\w>.\-\[\]]*version (=|\+=) .*);\s*$", code) or re.match(
            r"\s*[\w>.\-]*(bump|note_write|touch|wrote|written)\w*\(.*\);\s*$", code):
        yield 0, len(code), ""
    for m in re.finditer(r"version \+ 1\b", code):
        yield m.start(), m.end(), "version"
    for m in re.finditer(r"version (!=|==) ", code):
        yield m.start(1), m.end(1), "==" if m[1] == "!=" else "!="


def bound_faults(code, _path):
    m = re.match(r"\s*(?:for \(|} *for \()", code)
    if m:
        for b in re.finditer(r"(<|<=|>|>=) ([^;]*?);", code):
            if code[b.start() - 1] == " ":
                yield b.end(2), b.end(2), " - 1"
        for b in re.finditer(r" = 0(?=[;,])", code):
            yield b.end() - 1, b.end(), "1"
        for b in re.finditer(r" = 1;", code):
            yield b.end() - 2, b.end() - 1, "2"
        for b in re.finditer(r" (<|>)= ", code):
            yield b.end(1), b.end(1) + 1, ""
        for b in re.finditer(r" \+= ([a-z]\w*)\)", code):
            yield b.end(1), b.end(1), " + 1"
    for b in re.finditer(r" \+ \w+ - 1\) / ", code):
        yield b.start(), b.end(), ") / "
    for b in re.finditer(r"\b(min|max)\(", code):
        parts = arguments(code, b.end() - 1)
        if parts and len(parts) == 2 and re.search(r"\bn\b|length|count|end|first|last", code):
            yield parts[1][1], parts[1][1], " - 1"


def cast_faults(code, path):
    for m in re.finditer(r"(?<![\w:<.])(double|float|A|T)\(", code):
        parts = arguments(code, m.end() - 1)
        if not parts or len(parts) != 1 or re.fullmatch(r"[\d.\s]*|[i-n]", code[slice(*parts[0])]):
            continue
        begin, end = parts[0]
        inside = code[begin:end]
        if "<const bool*>" not in inside:  # 0 and 1 stay what they are
            yield begin, end, f"i64({inside})"
        if m[1] == "A":
            yield m.start(1), m.end(1), "T"
        if m[1] == "double":
            yield m.start(1), m.end(1), "float"
    for m in re.finditer(r"\bDType::(f32|f64|i64|boolean)\b", code):
        others = {"f32": "f16", "f64": "f32", "i64": "i32", "boolean": "u8"}
        yield m.start(1), m.end(1), others[m[1]]
    for m in re.finditer(r"\bAutocast::(f32|f16|low|promote)\b", code):
        yield m.start(1), m.end(1), "promote" if m[1] != "promote" else "f32"
    for m in re.finditer(r"\bTypes::(promote|any)\b", code):
        yield m.start(1), m.end(1), "same"
    for m in re.finditer(r"\b(ComputeType|Accumulator)<T>", code):
        yield m.start(), m.end(), "T"
    if not path.startswith("kernels/"):
        for m in re.finditer(r"(?<![\w:<])i64\(", code):
            yield m.start(), m.end() - 1, "i32"


def comparison_faults(code, _path):
    table = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||",
             "||": "&&"}
    if not re.match(r"\s*for \(", code):
        for m in re.finditer(r" (<=|>=|==|!=|<|>|&&|\|\|) ", code):
            yield m.start(1), m.end(1), table[m[1]]
    for m in re.finditer(r"\((!)(?=[\w(])", code):
        yield m.start(1), m.end(1), ""
    for m in re.finditer(r"\bif \((?=\w[\w.>\-]*\))", code):
        yield m.end(), m.end(), "!"


def sign_faults(code, _path):
    for m in re.finditer(r"(?:(?<=[(,=?:*/] )|(?<=[(\[{])|(?<=return ))-(?=[A-Za-z_(\d])", code):
        yield m.start(), m.end(), ""
    for m in re.finditer(r" (\+|-)= ", code):
        if not re.match(r"\s*for \(", code):
            yield m.start(1), m.end(1), "-" if m[1] == "+" else "+"
    for m in re.finditer(r"\b(neg|negative)(?=\()", code):
        yield m.start(), m.end(), ""
    m = re.match(r"\s*return ([a-z]\w*(?:\([^()]*\))?);\s*$", code)
    if m and m[1] not in ("true", "false", "nullptr"):
        yield m.start(1), m.start(1), "-"


SIMPLE = re.compile(r"[*&]?[a-z][\w.\->]*(\[\w+\]|\([\w., ]*\))?")


def argument_faults(code, _path):
    for m in re.finditer(r"\b([A-Za-z_]\w*)(?:<[\w, ]+>)?\(", code):
        if m[1] in COMMUTATIVE:
            continue
        parts = arguments(code, m.end() - 1)
        if not parts or len(parts) < 2:
            continue
        for (b0, e0), (b1, e1) in zip(parts, parts[1:]):
            first, second = code[b0:e0], code[b1:e1]
            if first != second and SIMPLE.fullmatch(first) and SIMPLE.fullmatch(second):
                yield b0, e1, second + ", " + first


def return_faults(code, path):
    if re.match(r"\s*if \(.*\) (return\b[^;]*|continue|break);\s*$", code):
        # An empty loop and an empty grid do nothing without being told.
        if re.search(r"== 0\) (return|continue);", code) and path.startswith("kernels/"):
            return
        if re.search(r"\(!g\.wants\(", code):  # saves work only
            return
        yield 0, len(code), ""
    elif re.match(r"\s*(return|continue|break);\s*$", code):
        yield 0, len(code), ""


RULES = dict(zip(CLASSES, [index_faults, formula_faults, saved_faults, version_faults, bound_faults,
                           cast_faults, comparison_faults, sign_faults, argument_faults,
                           return_faults]))


def faults_of(path, text):
    """Every fault of a file."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        code = masked(line)
        if SKIPPED_LINE.search(code) or SPEED_ONLY.search(code) or not code.strip():
            continue
        if re.search(r'"~', code):  # the rest of a message
            continue
        for kind, rule in RULES.items():
            for begin, end, new in rule(code, path):
                after = line[:begin] + new + line[end:]
                if begin == 0 and end == len(code):
                    after = ""
                if after != line:
                    found.append(Fault(path, number, kind, line, after))
    return found


def all_faults(root, only=""):
    found = []
    for pattern in SOURCES:
        for file in sorted(Path(root).glob(pattern)):
            path = file.relative_to(root).as_posix()
            if not NOT_SOURCES.search(path) and re.search(only, path):
                found += faults_of(path, file.read_text())
    return found


def draw(faults, count, seed):
    """A list of slots; each is the faults to try in order until one builds. Every class gets its
    even share of the slots, as far as it has lines; a line is in one slot only. The order is that
    of hashes of the seed and the line's text, so that a change of other lines changes little."""
    def rank(*words):
        return hashlib.sha256("\0".join([str(seed), *words]).encode()).digest()

    by_class = {}
    for kind in CLASSES:
        lines, seen = {}, {}
        for f in faults:
            if f.kind == kind:
                lines.setdefault((f.file, f.line, f.before.strip()), []).append(f)
        keyed = []
        for (file, _, text), choices in lines.items():
            again = seen[file, text] = seen.get((file, text), 0) + 1  # lines of equal text
            keyed.append((rank(kind, file, text, str(again)),
                          min(choices, key=lambda f: rank(f.after, str(again)))))
        by_class[kind] = [fault for _, fault in sorted(keyed, key=lambda pair: pair[0])]
    shares = {kind: 0 for kind in CLASSES}
    while sum(shares.values()) < count:
        open_ones = [k for k in CLASSES if shares[k] < len(by_class[k])]
        if not open_ones:
            break
        least = min(open_ones, key=lambda k: (shares[k], CLASSES.index(k)))
        shares[least] += 1
    slots = []
    for turn in range(max(shares.values(), default=0)):
        for kind in CLASSES:
            if turn < shares[kind]:
                slots.append(by_class[kind][turn::shares[kind]])
    return slots
