"""gate.py: the machine code of the default kernels as a table, compared with the committed one.

gate.py --check|--write TABLE --arch ARCH --exceptions FILE --cache FOLDER --jobs N CUBIN...

tools/sass_gate.sh finds the programs and the cubins. Exit codes: 0, 1 something got worse, 77 there
is no table or it is another compiler's.
"""
import argparse
import fnmatch
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import cubin
import listing
import measure
import names
import table

SKIPPED = 77
SHOWN = 30  # rows that a message lists


def analyse(job):
    """{kernel: row} of one cubin; what was once found out of the same bytes is kept in a file."""
    path, arch, cache, key = job
    data = Path(path).read_bytes()
    kept = Path(cache, hashlib.sha256(key + data).hexdigest() + ".json")
    if kept.exists():
        return json.loads(kept.read_text())
    kernels = cubin.read(data)
    mangled = list(kernels)
    called = dict(zip(mangled, map(names.short, names.demangle(mangled))))
    wanted = set(names.defaults(list(called.values())))
    kernels = {m: k for m, k in kernels.items() if called[m] in wanted}
    rows = {}
    if kernels:
        numbers = ",".join(str(k.symbol) for k in kernels.values())
        disassembler = os.environ.get("NVDISASM", "nvdisasm")
        text = subprocess.run([disassembler, "-c", "-ndf", "-fun", numbers, path], check=True,
                              text=True, stdout=subprocess.PIPE).stdout
        found = listing.parse(text.splitlines(), kernels)
        rows = {called[m]: measure.row(k, found[m], measure.ARCHITECTURES[arch])
                for m, k in kernels.items()}
    unfinished = kept.with_suffix(f".tmp-{os.getpid()}")
    unfinished.write_text(json.dumps(rows))
    unfinished.replace(kept)
    return rows


def compiler(path):
    found = re.search(rb"release [\d.]+, (V[\d.]+)", Path(path).read_bytes())
    return found.group(1).decode() if found else "unknown"


def stack_faults(rows, exceptions, arch):
    """Stack frames are spills or indexed arrays: local memory is DRAM behind a cache. Those that
    are wanted are listed: PATTERN ARCH BYTES REASON."""
    allowed = []
    for line in Path(exceptions).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, only, most, _ = line.split(None, 3)
            if only in ("all", arch):
                allowed.append((pattern, int(most)))
    faults, used = [], set()
    for name, row in sorted(rows.items()):
        fitting = [a for a in allowed if fnmatch.fnmatchcase(name, a[0])]
        used |= {a[0] for a in fitting if row["stack"]}
        if row["stack"] > max((a[1] for a in fitting), default=0):
            faults.append(f"{name}: a stack frame of {row['stack']} bytes, which {exceptions} does "
                          "not allow")
    return faults, [a[0] for a in allowed if a[0] not in used]


def head_of(arch, version):
    return [f"Machine code of the default kernels for {arch}, made by ptxas {version}.",
            "Written by tools/sass_gate.sh --write; docs/gpu_model.md says what the columns mean.",
            ""]


def list_some(what, lines):
    print(f"{len(lines)} {what}:")
    for line in lines[:SHOWN]:
        print(f"  {line}")
    if len(lines) > SHOWN:
        print(f"  and {len(lines) - SHOWN} more")


def check(rows, path, version, exceptions, arch):
    if not Path(path).exists():
        print(f"SKIPPED: {path} is not there: tools/sass_gate.sh --write --arch {arch} makes it")
        return SKIPPED
    old, head = table.read(path)
    if not any(line.endswith(f"ptxas {version}.") for line in head):
        print(f"SKIPPED: {path} is another compiler's ({head[0]}), this is ptxas {version}")
        return SKIPPED
    differences = table.compare(old, rows)
    worse = [d for d in differences if d.worse]
    others = [d for d in differences if not d.worse]
    new, gone = sorted(rows.keys() - old.keys()), sorted(old.keys() - rows.keys())
    faults, unused = stack_faults(rows, exceptions, arch)
    if others:
        list_some("figures differ and are not worse", [str(d) for d in others])
    if new:
        list_some("kernels are new", new)
    if gone:
        list_some("kernels are gone", gone)
    for pattern in unused:
        print(f"{exceptions}: no kernel {pattern} has a stack frame any more")
    if others or new or gone:
        print("run with --write, look at the difference and commit it")
    if worse:
        list_some("figures got worse", [str(d) for d in worse])
        print("Mend the kernel, or run with --write and say in the commit why it is worth it.")
    if faults:
        list_some("kernels use local memory", faults)
    print(f"{len(rows)} kernels, {len({d.kernel for d in worse})} worse, {len(faults)} with a "
          "stack frame that is not wanted")
    return 1 if worse or faults else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--exceptions", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("cubins", nargs="+")
    o = parser.parse_args()
    here = Path(__file__).parent
    makes_rows = ("cubin.py", "listing.py", "flow.py", "measure.py", "names.py")
    key = hashlib.sha256(b"".join((here / f).read_bytes() for f in makes_rows)).digest()
    Path(o.cache).mkdir(parents=True, exist_ok=True)
    # The largest first: the others fit around them.
    cubins = sorted(o.cubins, key=lambda p: -Path(p).stat().st_size)
    jobs = [(p, o.arch, o.cache, key) for p in cubins]
    rows = {}
    with multiprocessing.Pool(o.jobs) as pool:
        for part in pool.imap_unordered(analyse, jobs):
            rows.update(part)
    version = compiler(cubins[0])
    if o.write:
        table.write(o.table, rows, head_of(o.arch, version))
        faults, _ = stack_faults(rows, o.exceptions, o.arch)
        print(f"{o.table}: {len(rows)} kernels")
        if faults:
            list_some("kernels use local memory", faults)
        return 0
    return check(rows, o.table, version, o.exceptions, o.arch)


if __name__ == "__main__":
    sys.exit(main())
