"""What `wt look --json` says beside the page of the same launch: one strict JSON object, with the page's numbers.

same_figures.py JSON PAGE: exit code 1, with what differs.
"""
import html
import json
import re
import sys

bad = []


def same(what, is_, wanted):
    if is_ != wanted:
        bad.append(f"{what}: {is_!r}, the page has {wanted!r}")


def refuse(name):
    raise ValueError(f"{name} is no number of JSON")


def numbers(rows):
    return [[html.unescape(re.sub(r"<[^>]*>", "", c)) for c in row] for row in rows]


def cells(row):
    return re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)


def three(v):
    return f"{v:.3g}"


look = json.loads(open(sys.argv[1], encoding="utf-8").read(), parse_constant=refuse)
page = open(sys.argv[2], encoding="utf-8").read()

tiles = re.findall(r"<li( class=\"waste\")?><b>([^ <]*)[^<]*</b>", page)
same("tiles", [(three(t["value"]), t["waste"]) for t in look["tiles"]],
     [(three(float(value)), bool(waste)) for waste, value in tiles])
same("title", f"{look['contract']}: {look['variant']}", re.search("<h1>(.*?)</h1>", page)[1])

totals = numbers(cells(r) for r in re.findall(r"<tr data-total=.*?</tr>", page))
same("totals", [[t["what"], str(t["requests"]), f"{t['lanes'] / t['requests']:.1f}",
                 f"{t['units'] / t['requests']:.2f}", f"{t['least_units'] / t['requests']:.2f}"]
                for k in look["kernels"] for t in k["totals"]], totals)

# The listings, row by row: accesses and waits of a line, then the lines around them.
rows, plain, accesses = [], set(), 0
for k in look["kernels"]:
    for f in k["source"]:
        for line in f["lines"]:
            accesses += len(line["accesses"])
            for a in line["accesses"]:
                rows.append([line["line"], a["requests"], f"{a['lanes'] / a['requests']:.1f}",
                             f"{a['units'] / a['requests']:.2f} of {a['least_units'] / a['requests']:.2f}"])
                drawn = a.get("first_sectors", a.get("first_passes"))
                if not drawn:
                    bad.append(f"line {line['line']}: an access without its first request")
            rows += [[line["line"], w["warps"], "", ""] for w in line["waits"]]
            plain.add((line["line"], line["text"]))
counted = re.findall(r'<tr class="counted" data-line="(\d+)"[^>]*>(.*?)</tr>', page, re.S)
same("counted lines", [[str(c) for c in r] for r in rows],
     [[n] + numbers([cells(r)])[0][1:4] for n, r in counted])
same("pictures", accesses, page.count("<figure id="))
for row in re.findall(r"<tr><td></td><td></td><td></td><td></td>(.*?)</tr>", page, re.S):
    number, text = numbers([cells(row)])[0]
    if (int(number), text) not in plain:
        bad.append(f"line {number} is on the page alone: {text}")

for k, percent in zip(look["kernels"], re.findall(r'data-occupancy="(\d+)"', page)):
    o = k["occupancy"]
    same("occupancy", 100 * o["warps"] // o["most_warps"], int(percent))
limits = re.findall(r'<tr data-limit="(.*?)">.*?<td(?: class="(waste)")?>(\d+)</td></tr>', page)
same("limits", [[w["what"], w["what"] in k["occupancy"]["limited_by"], w["blocks"]]
                for k in look["kernels"] for w in k["occupancy"]["limits"]],
     [[what, bool(binds), int(blocks)] for what, binds, blocks in limits])
for k in look["kernels"]:
    same(f"{k['kernel']}: bytes", page.count(f"{k['read_bytes']} bytes read and {k['written_bytes']} written") > 0, True)
    same("stretches", len(k["timeline"]), min(k["stretches"], 256))
    code = k["machine_code"]
    if code:
        row = re.search(r'<th scope="row">registers of a thread</th><td>(\d+)</td>', page)
        same("registers", str(code["registers"]), row[1])
        same("instructions by pipe", ", ".join(f"{n:g} {pipe}" for pipe, n in code["mix"].items()),
             re.search(r'<th scope="row">instructions of a turn, by pipe</th><td>(.*?)</td>', page)[1])
        for m in code["modelled"]:
            same(m["gpu"], f"{three(100 * m['fraction'])} % of {'the peak' if m['of'] == 'peak' else 'a copy'}, bound by {m['bound']}",
                 html.unescape(re.search(f"{m['gpu']}, modelled</th><td>(.*?)</td>", page)[1]))

same("kernels with PTX", [html.escape(p["kernel"]) for p in look["ptx"]], re.findall("<h2>PTX of (.*?)</h2>", page))
for p, instructions in zip(look["ptx"], re.findall(r"<summary>(\d+) instructions</summary>", page)):
    same("instructions", len(p["lines"]), int(instructions))
    same("their kinds", sum(m["executed"] for m in p["mix"]), sum(line["executed"] for line in p["lines"]))
    texts = {(s["file"], s["line"]) for s in p["source"]}
    same("their source", texts, {(line["file"], line["line"]) for line in p["lines"] if line["line"]})
same("no PTX", bool(look["no_ptx"]), "Not here: " in page)

roof = re.search(r"FLOPs: (\S+) a byte\. There .*? by its (\w+)", page)
point = look["roofline"]["contract"]
same("roofline", point and (three(point["flops_a_byte"]), point["bound"]), roof and (three(float(roof[1])), roof[2]))

print("\n".join(bad))
sys.exit(1 if bad else 0)
