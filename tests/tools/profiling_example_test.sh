#!/usr/bin/env bash
# Rows 106 and 107: the tables of tools/examples/profiling.cpp have the form that the articles print:
# torch's columns, what is inside below what is around it, a last line with the measured time.
# Usage: profiling_example_test.sh EXAMPLE
set -uo pipefail
example=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
bad=0
for device in cpu simt; do
  COLUMNS=0 "$example" --steps 2 --device $device >"$here/$device" || { echo "FAILED: $device: $(cat "$here/$device")"; bad=1; }
done
python3 - "$here/cpu" "$here/simt" <<'END' || bad=1
import re, sys

def tables(path):
    """(heads, rows of cells, what is below) of each table: dashes, heads, dashes, rows, dashes, total, dashes."""
    lines = open(path).read().split("\n")
    found, at = [], 0
    while at < len(lines):
        if not lines[at].startswith("----"):
            at += 1
            continue
        spans = [m.span() for m in re.finditer("-+", lines[at])]
        cells = lambda line: [line[a:b].strip() for a, b in spans]
        rules = [i for i in range(at, len(lines)) if lines[i] == lines[at]][:4]
        body = [lines[i] for i in range(rules[1] + 1, rules[2])]
        rest = rules[3] + 1
        end = next((i for i in range(rest, len(lines)) if lines[i] == "" or lines[i].startswith("----")), len(lines))
        found.append((cells(lines[at + 1]), [(l, cells(l)) for l in body], cells(lines[rules[2] + 1]), lines[rest:end]))
        at = end
    return found

host = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
for path in sys.argv[1:]:
    simt = path.endswith("simt")
    physics, nested, modules = tables(path)
    for heads, rows, total, below in (physics, nested, modules):
        assert heads[:6] == host, heads
        assert "# of Calls" in heads and "FLOPs" in heads and "Bytes" in heads and "Bound by" in heads, heads
        assert ("Self simt" in heads and "simt total" in heads) == simt, heads
        assert total[0] == "Total" and total[heads.index("Self CPU %")] == "100.00%", total
        assert any(re.match(r"Self CPU time total: \d", line) for line in below), below
        assert all(len(cells) == len(heads) for _, cells in rows)
    # Article 0: a training that differentiates by its input, the dearest ten, memory beside them.
    heads, rows, _, below = physics
    names = [cells[0] for _, cells in rows]
    assert len(rows) == 10 and any(name.endswith(".backward") for name in names), names
    assert ("Self Mem" if simt else "Self CPU Mem") in heads, heads
    key = heads.index("simt total" if simt else "Self CPU")
    us = lambda t: float(re.sub("[mu]?s$", "", t)) * (1e6 if t[-2] not in "mu" else 1e3 if t[-2] == "m" else 1)
    times = [us(cells[key]) for _, cells in rows]
    assert times == sorted(times, reverse=True), times
    # Article 1: the user's range around modules, around operators, around kernels; input shapes.
    heads, rows, _, _ = nested
    assert "Inputs" in heads, heads
    depth = {}
    for line, cells in rows:
        depth.setdefault(cells[0], len(line) - len(line.lstrip()))
    order = [cells[0] for _, cells in rows]
    assert depth["model_inference"] == 0, depth
    assert depth["head"] == 2 and depth["linear"] == 4, depth
    kernel = next(n for n in order[order.index("linear"):] if n.startswith("matmul:"))
    assert depth[kernel] == 6, depth
    assert order.index("model_inference") < order.index("head") < order.index("linear") < order.index(kernel)
    assert [c[heads.index("Inputs")] for _, c in rows if c[0] == "linear"][0].startswith("[16, 512]"), rows
    assert {"conv", "bn", "head"} <= {cells[0] for _, cells in modules[1]}, modules[1]
END
[ $bad -eq 0 ] && echo "the examples' tables are as the articles print them"
exit $bad
