"""nvdisasm's text, as instructions.

A line is `/*0050*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64+0x10] ;`, a label `.L_x_3:` on a line of its
own. The listings of the tests, which no assembler made, tell the scheduler's bits behind the
semicolon: `&set=0 &wait=0,1`.
"""
import re
from dataclasses import dataclass

from cubin import Control, control

LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);(.*)$")
SECTION = re.compile(r"^\.text\.([^:\s]+):")
LABEL = re.compile(r"^(\.L_x_\d+|\S+):$")
TARGET = re.compile(r"`\(([^)]*)\)")
NO_CONTROL = Control(waits=0, sets=7)


@dataclass
class Instruction:
    at: int  # its address in the kernel
    predicate: str  # "" if it always runs
    opcode: str  # LDG.E.128
    operands: str
    control: Control
    target: str  # of a branch or call
    parts: tuple  # ("LDG", "E", "128")
    broadcast: bool = False  # measure.mark_broadcasts: a load of one address for the whole grid

    @property
    def name(self):
        return self.parts[0]


class Listing:
    def __init__(self):
        self.instructions = []
        self.labels = {}  # label -> index of the instruction behind it


def _noted(text):
    """The control bits of a test's listing."""
    waits = re.search(r"&wait=([\d,]+)", text)
    sets = re.search(r"&set=(\d)", text)
    mask = sum(1 << int(n) for n in waits.group(1).split(",")) if waits else 0
    return Control(waits=mask, sets=int(sets.group(1)) if sets else 7)


def parse(lines, kernels=None):
    """{mangled name: Listing}. `kernels`: cubin.read's, for the control bits."""
    found, here, code = {}, None, b""
    parts_of = {}
    for line in lines:
        match = LINE.match(line)
        if match:
            at, predicate, opcode, operands, rest = match.groups()
            at = int(at, 16)
            if here is None:
                continue
            if code:
                bits = control(code, at)
            else:
                bits = _noted(rest) if "&" in rest else NO_CONTROL
            target = TARGET.search(operands) if "`" in operands else None
            parts = parts_of.setdefault(opcode, tuple(opcode.split(".")))
            here.instructions.append(Instruction(at, predicate or "", opcode, operands, bits,
                                                 target.group(1) if target else "", parts))
            continue
        section = SECTION.match(line)
        if section:
            here = found.setdefault(section.group(1), Listing())
            code = kernels[section.group(1)].code if kernels else b""
            continue
        label = LABEL.match(line)
        if label and here is not None:
            here.labels[label.group(1)] = len(here.instructions)
    return found
