"""Control flow of one kernel: basic blocks, nested loops, and the path that moves most bytes.

Which way a branch goes is not in the machine code. The path taken here is the best case of a large
dense tensor: it passes the accesses that count, as many as one turn can, and nothing else that can
be avoided. What it says of a kernel is thus a lower bound of the work and no average.
"""
from dataclasses import dataclass, field

ENDS = {"EXIT", "RET", "KILL", "BPT"}


@dataclass
class Block:
    first: int  # instructions [first, last)
    last: int
    next: list = field(default_factory=list)  # indices of blocks
    leaves: bool = False  # the thread may end here


@dataclass
class Loop:
    blocks: frozenset
    head: int
    inner: list  # of Loop


def is_jump(x):
    """ptxas for sm_80 ends some loops with a CALL of a label of the kernel, never returned from."""
    return x.name in ("BRA", "JMP") or x.name == "CALL" and x.target.startswith(".L_x_")


def _always(instruction):
    return instruction.predicate in ("", "PT", "UPT")


def blocks_of(listing):
    code, labels = listing.instructions, listing.labels
    starts = {0} | {i for i in labels.values() if i < len(code)}
    for i, x in enumerate(code):
        if x.name in ENDS or is_jump(x) or x.name in ("BSYNC", "BREAK", "BRX", "JMX"):
            starts.add(i + 1)
    starts = sorted(s for s in starts if s < len(code))
    number = {s: n for n, s in enumerate(starts)}
    blocks = [Block(s, e) for s, e in zip(starts, starts[1:] + [len(code)])]
    meets = {}  # convergence barrier -> where its BSSY says that threads meet
    for n, block in enumerate(blocks):
        for i in range(block.first, block.last):
            if code[i].name == "BSSY":
                meets[code[i].operands.split(",")[0].strip()] = labels.get(code[i].target)
        x = code[block.last - 1]
        falls = n + 1 < len(blocks)
        if x.name in ENDS:
            block.leaves = True
            falls &= not _always(x)
        elif is_jump(x):
            # BRA.DIV is taken where a warp has come apart, which the best case has not.
            to = labels.get(x.target)
            if to in number and "DIV" not in x.parts:
                block.next.append(number[to])
            falls &= not _always(x) or "DIV" in x.parts or _has_condition(x)
        elif x.name == "BSYNC":
            to = meets.get(x.operands.split(",")[0].strip())
            if to in number:
                block.next.append(number[to])
                falls = False
        if falls and n + 1 not in block.next:
            block.next.append(n + 1)
    return blocks


def _has_condition(branch):
    """BRA.U UP0, `(.L) and BRA P0, `(.L): a condition among the operands."""
    return bool(branch.target) and branch.operands.lstrip("!").startswith(("UP", "P"))


def reachable(blocks):
    seen, stack = set(), [0] if blocks else []
    while stack:
        n = stack.pop()
        if n not in seen:
            seen.add(n)
            stack.extend(blocks[n].next)
    return seen


def _components(nodes, edges):
    """Strongly connected components (Tarjan), without recursion."""
    index, low, on, stack, result = {}, {}, set(), [], []
    for root in sorted(nodes):
        if root in index:
            continue
        work = [(root, iter(edges(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, it = work[-1]
            for to in it:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(edges(to))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    part = set(stack[at:])
                    del stack[at:]
                    on -= part
                    result.append(part)
    return result


def loops_of(blocks, nodes, without=frozenset()):
    """The loops among these blocks, the outermost ones, each with those inside it. `without`: heads
    of loops around, whose back edges are not followed."""
    def edges(n):
        return [m for m in blocks[n].next if m in nodes and m not in without]

    found = []
    for part in _components(nodes, edges):
        if len(part) == 1 and next(iter(part)) not in edges(next(iter(part))):
            continue
        entered = {m for n in nodes - part for m in edges(n) if m in part}
        head = min(entered) if entered else min(part)
        found.append(Loop(frozenset(part), head, loops_of(blocks, part, without | {head})))
    return sorted(found, key=lambda l: l.head)


def every(loops):
    for loop in loops:
        yield loop
        yield from every(loop.inner)


def best_path(blocks, nodes, start, value, stop):
    """Blocks from `start` to one where `stop`, with the greatest sum of value(block), a tuple. Each
    is passed once: edges that lead back are not followed."""
    order, back = [], set()
    seen, active = {start}, {start}
    work = [(start, iter(blocks[start].next))]
    while work:  # depth first; an edge to a block that is still open leads back
        node, it = work[-1]
        for to in it:
            if to in active:
                back.add((node, to))
            elif to in nodes and to not in seen:
                seen.add(to)
                active.add(to)
                work.append((to, iter(blocks[to].next)))
                break
        else:
            work.pop()
            active.discard(node)
            order.append(node)
    best, after = {}, {}
    for node in order:  # what is behind a block comes before it
        own = value(node)
        options = [(best[to], to) for to in blocks[node].next
                   if to in best and (node, to) not in back]
        if stop(node):
            options.append(((0,) * len(own), None))
        if options:
            rest, after[node] = max(options, key=lambda o: o[0])
            best[node] = tuple(a + b for a, b in zip(own, rest))
    path, node = [], start if start in best else None
    while node is not None:
        path.append(node)
        node = after[node]
    return path
