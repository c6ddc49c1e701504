"""What README.md, SECURITY.md, docs/from_pytorch.md and `wt info` say is there is what is built.

built.py PATH_OF_WT

README.md's table of devices is made from `wt ops --json` and from training; WT_WRITE_README=1
writes it instead of comparing it.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- devices: written by tests/docs/built.py -->\n", "<!-- end of devices -->\n"
# Of the headers in autograd/ops and core/tensor.h, in which the operators are declared.
GROUPS = {
    "elementwise, comparisons": ["pointwise", "composite_activation",
                                 "composite_pointwise", "tensor"],
    "reductions, statistics": ["reduce", "stats"],
    "views, copies, rearranging, padding": ["shape", "arrange", "arrays", "diagonal", "pad",
                                            "fold"],
    "matrix products, einsum": ["matmul", "fused_linear", "linalg", "einsum"],
    "softmax, layer and RMS norm, dropout": ["softmax", "norm", "add_norm", "dropout"],
    "losses": ["loss", "elementwise_loss", "margin_loss", "likelihood_loss", "distance", "ctc"],
    "indexing, embedding": ["index", "embedding_bag", "gather", "scatter_reduce"],
    "attention": ["attention"],
    "convolution, pooling, resizing, batch norm": ["conv", "fused_conv", "pool", "resize",
                                                   "grid", "channel_norm"],
    "Fourier transforms": ["fourier", "spectral"],
    "sorting, order, scans, random draws": ["sort", "order", "scan", "random"],
    "decompositions, inverses": ["decompose", "inverse", "svd"],
}
MOST_NAMES = 6  # that a cell lists
TRAININGS = {
    "training a perceptron: `wt train fashion --set model=mlp`": ["fashion", "--set", "model=mlp"],
    "training a small GPT: `wt train charlm`": ["charlm", "--set", "layers=1", "--set", "heads=2",
                                                "--set", "channels=16", "--set", "context=16"],
    "training a CNN: `wt train fashion`": ["fashion"],
}
# Of each optional part, how the functions that are called begin.
CALLS = {"cuda": "cudaLaunchKernel", "openblas": "cblas_", "lmdb": "mdb_", "lzma": "lzma_", "mpi": "MPI_", "jpeg": "jpeg_", "webp": "WebP", "spng": "spng_", "zlib": "inflate"}


def lines_of(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          **options).stdout.splitlines()


# --- README.md: what works where ---


def families():
    """{operator: name of the header that declares it}"""
    found = {}
    declares = re.compile(r"^\s*(?:WT_API [\w:<>]+&? |WT_(?:IN_PLACE|WRITES)\()(\w+)[(,]", re.M)
    for header in [ROOT / "core/tensor.h", *sorted((ROOT / "autograd/ops").glob("*.h"))]:
        for name in declares.findall(header.read_text()):
            found[name] = header.stem
    return found


def support(operators, device):
    """A cell: how many of the operators run, and which do not, or in part."""
    by_kind = {k: [o["name"] for o in operators if o["devices"][device] == k]
               for k in ("all", "part", "none")}
    if not by_kind["part"] and not by_kind["none"]:
        return f"all {len(operators)}"
    if len(by_kind["none"]) == len(operators):
        return "none"
    def named(names):
        return ", ".join(f"`{n}`" for n in names)

    text = f"{len(by_kind['all'])} of {len(operators)}"
    if len(by_kind["none"]) > MOST_NAMES:
        text += f": {named(by_kind['all'])}" if len(by_kind["all"]) <= MOST_NAMES else ""
    text += f"; in part {named(by_kind['part'])}" if by_kind["part"] else ""
    text += f"; not {named(by_kind['none'])}" if 0 < len(by_kind["none"]) <= MOST_NAMES else ""
    return text


def trains(wt, device, command, data):
    recipe, *options = command
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([wt, "train", recipe, *options, "--device", device, "--steps", "2",
                               "--batch", "4", "--data", data[recipe], "--out", f"{out}/run"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, errors="replace")  # charlm prints the bytes it made
    if done.returncode == 0:
        return "yes"
    if done.returncode == 2 and "no kernel for" in done.stderr:
        return "no"
    raise SystemExit(f"wt train {' '.join(command)} on {device}: {done.stderr}")


def device_table(wt):
    declared_in = families()
    rows = map(json.loads, lines_of(wt, "ops", "--json"))
    rows = [row for row in rows if row["kind"] not in ("factory", "host")]
    table = ["| | cpu | simt | cuda |", "|---|---|---|---|"]

    def add(what, cpu, simt):
        table.append(f"| {what} | {cpu} | {simt} | {'-' if simt in ('none', 'no') else 'compiled'} |")

    grouped = 0
    for what, headers in GROUPS.items():
        operators = [o for o in rows if declared_in.get(o["name"]) in headers]
        grouped += len(operators)
        add(what, support(operators, "cpu"), support(operators, "simt"))
    if grouped != len(rows):
        raise SystemExit(f"{len(rows) - grouped} operators are in no group of tests/docs/built.py")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["bash", "-c", f". {ROOT}/tests/support/tiny_fashion.sh; "
                        f"tiny_fashion {folder}/images 40 10"], check=True)
        Path(folder, "text").write_text("".join(f"{i} " for i in range(3000)))
        data = {"fashion": f"{folder}/images", "charlm": f"{folder}/text"}
        for what, command in TRAININGS.items():
            add(what, trains(wt, "cpu", command, data), trains(wt, "simt", command, data))
    return "\n".join(table) + "\n"


def check_readme(wt):
    page = ROOT / "README.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    table = device_table(wt)
    if os.environ.get("WT_WRITE_README"):
        page.write_text(before + BEGIN + table + END + after)
    elif old != table:
        return [f"README.md's table of devices is to be\n{table}"
                "(WT_WRITE_README=1 tests/docs/built.py PATH_OF_WT writes it)"]
    return []


# --- SECURITY.md: the readers ---


def check_readers():
    text = (ROOT / "SECURITY.md").read_text()
    listed = set(re.findall(r"^\|[^|]*\| `(\w+)", text.split("## Readers")[1], re.M))
    there = set()
    for folder in ("core", "data", "nn", "autograd", "kernels"):
        for header in (ROOT / folder).rglob("*.h"):
            source = header.read_text()
            there |= set(re.findall(r"WT_API [\w:<>]+ ((?:read|load)_\w+)\(const std::string& path", source))
            there |= set(re.findall(r"explicit (\w+File)\(const std::string& path, const", source))
            there |= set(re.findall(r"explicit (\w+Reader)\(const std::string& path", source))
            there |= set(re.findall(r"WT_API [\w:<>]+ (parse_\w+)\(std::string_view", source))
            there |= set(re.findall(r"static (\w+File) open\(const std::string& path", source))
            there |= set(re.findall(r"static (\w+) load\(const std::string& path", source))
    bad = [f"SECURITY.md lists no reader {r}" for r in sorted(there - listed)]
    bad += [f"SECURITY.md lists {r}, which is not there" for r in sorted(listed - there)]
    fuzzed = set(re.findall(r"takes_(\w+)", (ROOT / "tests/fuzz/readers.h").read_text()))
    attacked = set(re.findall(r"^\| (\w+)[^|]*\| `", text.split("## Readers")[1].lower(), re.M))
    bad += [f"SECURITY.md's formats and tests/fuzz/readers.h differ: {f}" for f in fuzzed ^ attacked]
    return bad


# --- SECURITY.md: which test holds what it promises ---


def check_promises():
    text = (ROOT / "SECURITY.md").read_text().split("## Held by")[1]
    rows = re.findall(r"^\|[^|]*\| (tests/\S+) \| (.*) \|$", text, re.M)
    bad = [] if rows else ["SECURITY.md names no tests"]
    for file, names in rows:
        source = (ROOT / file).read_text() if (ROOT / file).exists() else ""
        cases = re.findall(r'TEST_CASE\(\s*"([^"]*)"', source)
        bad += [f"SECURITY.md: {file} has no test that begins with '{name}'"
                for name in re.findall(r"`([^`]*)`", names)
                if not any(case.startswith(name) for case in cases)]
    sources = [f for folder in ("core", "data", "nn", "tools") for f in (ROOT / folder).rglob("*.cpp")]
    bad += [f"SECURITY.md says that only verified shards are mapped: {f.name}" for f in sources
            if "mmap(" in f.read_text() and f.name != "guard_alloc.cpp"  # memory, not files
            and f.name != "shard_map.cpp"  # of files that were verified, as SECURITY.md says
            and "emulator" not in f.parts]  # not of the library or of wt: device memory, symbols
    return bad


# --- SECURITY.md: nothing is downloaded ---

NETWORK = {"gethostbyname", "socketpair"}
RANKS = {"socket", "connect", "getaddrinfo"}  # between the processes of a job alone, in these files
RANKS_FILES = {"dist/world/sockets.cpp", "dist/world/pulse_door.cpp", "dist/tcp/reception.cpp", "dist/tcp/rendezvous.cpp"}
DOWNLOADS = r"FetchContent|ExternalProject|CPMAddPackage|file\s*\(\s*DOWNLOAD|\b(curl|wget)\b"


def programs_of(wt):
    return [wt, *(line.split()[2] for line in lines_of("ldd", wt) if "libwarptape" in line)]


def check_offline(wt):
    bad = [f"SECURITY.md says that nothing is downloaded: {Path(p).name} calls {name}" for p in programs_of(wt)
           for name in sorted({line.split()[-1].split("@")[0] for line in lines_of("nm", "-D", p)} & NETWORK)]
    calls = rf"(?<!\w)::({'|'.join(sorted(RANKS))})\("
    bad += [f"SECURITY.md says that only ranks make sockets: {f.name}"
            for folder in ("core", "autograd", "kernels", "nn", "data", "optim", "dist", "tools")
            for f in (ROOT / folder).rglob("*.cpp")
            if re.search(calls, f.read_text()) and str(f.relative_to(ROOT)) not in RANKS_FILES]
    build = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").iterdir()]
    return bad + [f"SECURITY.md says that nothing is downloaded: {f.name}" for f in build
                  if re.search(DOWNLOADS, f.read_text())]


# --- docs/from_pytorch.md: what is not there yet ---


def check_missing():
    text = (ROOT / "docs/from_pytorch.md").read_text().split("## Not there yet")[1]
    text = re.sub(r"\([^)]*\)", "", text)  # what is there instead
    sources = "".join(h.read_text() for folder in ("core", "data", "nn", "optim", "autograd")
                      for h in (ROOT / folder).rglob("*.h"))
    declared = set(re.findall(r"(?:Tensor|Loss|struct|class|bool|using)(?: WT_API)? (\w+)\b", sources))
    return [f"docs/from_pytorch.md says that {name} is not there"
            for name in re.findall(r"`(\w+)`", text) if name in declared]


# --- wt info: the parts ---


def check_info(wt):
    parts = json.loads("".join(lines_of(wt, "info", "--json")))["features"]
    called = {line.split()[-1] for p in programs_of(wt) for line in lines_of("nm", "-D", p)}
    bad = []
    for part, state in parts.items():
        if part not in CALLS:
            bad.append(f"tests/docs/built.py does not know by what the part {part} is called")
            continue
        on = state not in ("off", "missing")
        if on != any(name.startswith(CALLS[part]) for name in called):
            bad.append(f"wt info says of {part}: {state}, but it is {'not ' if on else ''}called")
    return bad


def main():
    wt = sys.argv[1]
    bad = check_readme(wt) + check_readers() + check_promises() + check_missing()
    bad += check_offline(wt) + check_info(wt)
    print("\n".join(bad) or "the pages and wt info say what is there")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
