"""From a kernel's instructions to the figures of its row; docs/gpu_model.md explains them."""
import re
from dataclasses import dataclass

import flow

LOADS, STORES = {"LDG", "LD", "LDGSTS"}, {"STG", "ST", "RED", "REDG", "ATOMG", "ATOM"}
PRODUCTS = {"HMMA", "HGMMA", "IMMA", "DMMA", "QGMMA"}
SHARED_LOADS = {"LDS", "LDSM"}
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@dataclass(frozen=True)
class Architecture:
    """Per SM; the sources of the figures are in docs/gpu_model.md."""
    name: str
    shared: int  # bytes for blocks, of which each takes 1 KiB more than it asks for
    own_shared: int  # bytes of .nv.shared that are the system's
    fma: int  # clocks that one warp's instruction takes of a quarter's pipe
    f64: int
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536


ARCHITECTURES = {
    "sm_90a": Architecture("sm_90a", shared=228 << 10, own_shared=1024, fma=1, f64=2),
    "sm_80": Architecture("sm_80", shared=164 << 10, own_shared=0, fma=2, f64=4),
}
FMA = {"FFMA", "FADD", "FMUL", "FSWZADD"}
HALF = {"HFMA2", "HADD2", "HMUL2", "HMNMX2", "HSET2", "HSETP2"}
F64 = {"DFMA", "DADD", "DMUL", "DSETP", "DMNMX"}
XU = {"MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV"}
LSU = LOADS | STORES | SHARED_LOADS | {"STS", "SHFL", "LDL", "STL", "LDC", "ATOMS"}
CONTROL = {"BRA", "BSSY", "BSYNC", "EXIT", "BAR", "CALL", "RET", "WARPSYNC", "NOP", "DEPBAR",
           "S2R", "S2UR", "CS2R", "BREAK", "LDGDEPBAR", "ERRBAR", "MEMBAR", "CCTL", "YIELD"}
CALL_COST = 100  # instructions, about a 64-bit division: the best case goes around it where it can
BLOCK_IF_UNBOUND = 256  # threads, where no __launch_bounds__ says


def pipe_of(x, arch):
    """(pipe, clocks of it that one warp's instruction takes)"""
    if x.name in FMA:
        return "fma", arch.fma
    if x.name in HALF:
        return "fma", 1
    if x.name == "IMAD":
        return "imad", 2
    if x.name in F64:
        return "f64", arch.f64
    if x.name in XU:
        return "xu", 8
    if x.name in LSU:
        return "lsu", 4
    if x.name in PRODUCTS:
        return "mma", 0
    if x.name in CONTROL:
        return "control", 0
    if x.name.startswith("U") or x.name == "R2UR":
        return "uniform", 2
    return "alu", 2


def width(x):
    for part in x.parts[1:]:
        if part in WIDTHS:
            return WIDTHS[part]
    return 4


def is_call(x):
    return x.name == "CALL" and not flow.is_jump(x)


def is_load(x):
    return x.name in LOADS and not x.broadcast


def is_access(x):
    return x.name in STORES or is_load(x)


ADDRESS = re.compile(r"\[(R\d+)(?:\.64)?(?:\+[-\w]+)?\]\s*$")
FROM_CONSTANT = re.compile(r"^R\d+, (?:RZ, RZ, )?(?:c\[0x\d\]\[0x\w+\]|UR\d+)\s*$")


def mark_broadcasts(listing):
    """Loads whose address comes straight out of the kernel's arguments: device scalars (a learning
    rate, a sum of weights), which all threads read from one place. They are no traffic."""
    constant = {}
    for x in listing.instructions:
        if x.name in LOADS:
            address = ADDRESS.search(x.operands)
            x.broadcast = bool(address) and constant.get(address.group(1), False)
        to = x.operands.partition(",")[0].strip()
        if to.startswith("R"):
            constant[to] = (x.name in ("LDC", "MOV", "IMAD") and
                            FROM_CONSTANT.match(x.operands) is not None)


# --- the hot region: a loop, or what runs once ---


@dataclass
class Hot:
    path: list  # instructions of a turn
    turns: bool  # a loop
    bytes: int  # of the accesses that count


PACK = 16


def _widest(code, is_one):
    return max((width(x) for x in code if is_one(x)), default=0)


def hot_region(listing):
    """Where 16-byte accesses are (loads; stores, if it loads none), else where any are: the turn of
    an innermost loop that moves most, or the way from entry to exit if no loop has them."""
    mark_broadcasts(listing)
    code = listing.instructions
    blocks = flow.blocks_of(listing)
    nodes = flow.reachable(blocks)
    inside = {n: code[blocks[n].first:blocks[n].last] for n in nodes}
    live = [x for n in nodes for x in inside[n]]
    loads = any(is_load(x) for x in live)
    decides = is_load if loads else is_access
    packs = _widest(live, decides) == PACK
    store = _widest(live, lambda x: x.name in STORES)

    def counts(x):
        if not packs:
            return is_access(x)
        # Stores may be narrower than the loads: a comparison writes 4 bytes for 16.
        return is_access(x) and width(x) == (PACK if decides(x) else store)

    def value(n):
        return (sum(width(x) for x in inside[n] if counts(x)),
                -sum(CALL_COST if is_call(x) else x.name != "NOP" for x in inside[n]))

    holds = {n for n in nodes for x in inside[n]
             if (is_access(x) if not packs else decides(x) and width(x) == PACK)}

    def region(where, start, stop, turns):
        path = flow.best_path(blocks, where, start, value, stop)
        return Hot([x for n in path for x in inside[n]], turns, sum(value(n)[0] for n in path))

    found = []
    for loop in flow.every(flow.loops_of(blocks, nodes)):
        if loop.blocks & holds and not any(i.blocks & holds for i in loop.inner):
            head = loop.head
            found.append(region(loop.blocks, head, lambda n: head in blocks[n].next, True))
    if not found:
        found.append(region(nodes, 0, lambda n: blocks[n].leaves, False))
    return max(found, key=lambda h: (moved(h.path)[0] > 0, h.bytes, -slots_per_kb(h.path)))


def moved(path):
    return (sum(width(x) for x in path if is_load(x)),
            sum(width(x) for x in path if x.name in STORES))


def slots(path):
    return sum(x.name != "NOP" for x in path)


def slots_per_kb(path):
    """Of a warp: 32 threads move what the path's accesses say."""
    return slots(path) * 32 / max(1, sum(moved(path)))


# --- what is under way ---


def under_way(path, turns, product=None):
    """Bytes that a thread has asked for and not yet waited for: (the most at any instruction, the
    most at an instruction `product` of the last turn)."""
    pending = [0] * 6  # by the barrier that the load clears
    copies, open_copy = [], 0  # cp.async groups
    most = at_products = 0
    for _ in range(3 if turns else 1):  # what one turn asks for, the next one may wait for
        at_products = 0
        for x in path:
            for b in range(6):
                if x.control.waits >> b & 1:
                    pending[b] = 0
            if x.name == "DEPBAR" and "LE" in x.parts:
                keep = int(x.operands.split(",")[1].strip(), 0)
                copies = copies[-keep:] if keep else []
            elif x.name == "LDGDEPBAR":
                copies.append(open_copy)
                open_copy = 0
            elif x.name == "LDGSTS":
                open_copy += width(x)
            elif is_load(x) and x.control.sets < 6:
                pending[x.control.sets] += width(x)
            now = sum(pending) + sum(copies) + open_copy
            most = max(most, now)
            if x.name == product:
                at_products = max(at_products, now)
    return most, at_products


# --- threads ---


def threads_by_registers(registers, arch):
    a_warp = (registers * 32 + 255) // 256 * 256
    return arch.registers // 4 // max(a_warp, 256) * 4 * 32


def launchable(kernel, arch):
    """Threads of the largest block for which the registers suffice."""
    return min(1024, threads_by_registers(kernel.registers, arch))


def resident(kernel, arch):
    """Threads on an SM, in blocks of the bound's size. A block's shared memory, 1 KiB of the system's
    included, is handed out in units of 128 bytes (NVIDIA's cuda_occupancy.h)."""
    block = (min(kernel.bound or BLOCK_IF_UNBOUND, 1024) + 31) // 32 * 32
    shared = max(0, kernel.shared - arch.own_shared)
    blocks = min(arch.blocks, arch.threads // block,
                 threads_by_registers(kernel.registers, arch) // block,
                 arch.shared // ((shared + 1024 + 127) // 128 * 128))
    return max(blocks, 0) * block


# --- a row ---


def tiles(path):
    """(kind, products, loads from shared memory) of a product's turn, or None."""
    products = [x for x in path if x.name in PRODUCTS]
    if products:
        return products[0].name, len(products), sum(x.name == "LDSM" for x in path)
    multiplied = sum(x.name == "FFMA" for x in path)
    loads = sum(x.name == "LDS" for x in path)
    if multiplied >= 128 and loads and any(x.name == "BAR" for x in path):
        return "FFMA", multiplied, loads
    return None


def row(kernel, listing, arch):
    """{column: value} of one kernel."""
    hot = hot_region(listing)
    load, store = moved(hot.path)
    product = tiles(hot.path)
    most, ahead = under_way(hot.path, hot.turns, product and product[0])
    pipes, mix = {}, {}
    for x in hot.path:
        pipe, clocks = pipe_of(x, arch)
        pipes[pipe] = pipes.get(pipe, 0) + clocks
        mix[pipe] = mix.get(pipe, 0) + (x.name != "NOP")
    busiest = max(pipes, key=lambda p: (pipes[p], p), default="-")
    kb = max(1, load + store) / 32
    threads = resident(kernel, arch)
    return {
        "regs": kernel.registers,
        "launch": launchable(kernel, arch),
        "bound": kernel.bound or None,
        "resident": threads,
        "stack": kernel.stack,
        "hot": "loop" if hot.turns else "once",
        "ld": _widest(hot.path, is_load),
        "st": _widest(hot.path, lambda x: x.name in STORES),
        "reads": load,
        "writes": store,
        "flight": most * threads / 1024,
        "slots": slots(hot.path) / kb if load + store else 0.0,
        "pipe": busiest,
        "clocks": pipes.get(busiest, 0) / kb if load + store else 0.0,
        "calls": sum(map(is_call, hot.path)),
        "slow": sum(map(is_call, listing.instructions)),
        "mma": product and product[1],
        "lds": product and product[2],
        "ratio": product and product[1] / max(1, product[2]),
        "ahead": ahead if product else None,
        "mix": ",".join(f"{p}:{n}" for p, n in sorted(mix.items(), key=lambda e: (-e[1], e[0])) if n) or None,
    }
