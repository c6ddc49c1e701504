"""What a cubin says of its kernels without disassembling it: registers, stack, shared memory, the
bound on threads, and each instruction's 16 bytes.

A cubin is an ELF file. `.nv.info` holds records {u8 form, u8 what, u16 size or value, payload}; the
numbers of `what` used here are those of NVIDIA's cuobjdump -elf.
"""
import struct
from dataclasses import dataclass

REGISTERS, FRAME, MAX_THREADS = 0x2F, 0x11, 0x05
FORM_WITH_PAYLOAD = 4


@dataclass
class Kernel:
    symbol: int  # index in the symbol table, which nvdisasm -fun takes
    registers: int = 0
    stack: int = 0  # bytes a thread: arrays that are indexed, and spills
    shared: int = 0  # bytes a block, the static part
    bound: int = 0  # __launch_bounds__; 0: none
    code: bytes = b""


def records(data):
    at = 0
    while at + 4 <= len(data):
        form, what, size = struct.unpack_from("<BBH", data, at)
        at += 4
        payload = data[at:at + size] if form == FORM_WITH_PAYLOAD else b""
        at += len(payload)
        yield what, payload


def sections(data):
    """[(name, type, info, bytes)]"""
    at, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
    text = data[heads[names][4]:][:heads[names][5]]

    def name(offset):
        return text[offset:text.index(b"\0", offset)].decode()

    nobits = 8  # takes no place in the file
    return [(name(h[0]), h[1], h[7], b"\0" * h[5] if h[1] == nobits else data[h[4]:h[4] + h[5]])
            for h in heads]


def symbols(found):
    """[name] in the table's order."""
    table = next(s[3] for s in found if s[0] == ".symtab")
    text = next(s[3] for s in found if s[0] == ".strtab")
    offsets = [struct.unpack_from("<I", table, i)[0] for i in range(0, len(table), 24)]
    return [text[o:text.index(b"\0", o)].decode() for o in offsets]


def read(data):
    """{mangled name: Kernel} of a cubin's bytes."""
    found = sections(data)
    names = symbols(found)
    kernels = {}
    for name, _, _, body in found:
        if name.startswith(".text."):
            kernels[name[6:]] = Kernel(names.index(name[6:]), code=body)
    for name, _, _, body in found:
        if name == ".nv.info":
            for what, payload in records(body):
                if what in (REGISTERS, FRAME):
                    symbol, value = struct.unpack("<II", payload)
                    kernel = kernels.get(names[symbol])
                    if kernel and what == REGISTERS:
                        kernel.registers = value
                    elif kernel:
                        kernel.stack = value
        elif name.startswith(".nv.info.") and name[9:] in kernels:
            for what, payload in records(body):
                if what == MAX_THREADS:
                    x, y, z = struct.unpack("<III", payload)
                    kernels[name[9:]].bound = x * y * z
        elif name.startswith(".nv.shared.") and name[11:] in kernels:
            kernels[name[11:]].shared = len(body)
    return kernels


@dataclass(frozen=True)
class Control:
    """What the compiler tells the scheduler in bits 105 to 121 of each instruction."""
    waits: int  # mask of the barriers that must be clear before it issues
    sets: int  # the barrier that its result clears; 7: none


def control(code, at):
    word, = struct.unpack_from("<Q", code, at + 8)
    return Control(waits=word >> 52 & 0x3F, sets=word >> 46 & 7)
