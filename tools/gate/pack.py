"""What a machine without compilers needs, as one file: wt_gpu, the libraries that neither the C
library nor CUDA brings, and which of its tests walk cuda."""

import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile

from programs import NAME

MOST_MIB = 36
# The machine's own, and CUDA's, which come with its toolkit or with PyTorch.
NOT_PACKED = re.compile(
    r"/(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcu\w*|libnv\w*|libnccl)\.so"
)
BROKEN = (tarfile.TarError, lzma.LZMAError, EOFError)  # what unpack() throws besides
# Ubuntu 24.04's, which the oldest machines have: newer symbols would not be found there.
NEWEST = {"GLIBC": (2, 39), "GLIBCXX": (3, 4, 33)}


def make(args):
    """--pack FILE, programs from WT_BUILD_DIR."""
    if len(args) != 1:
        print("usage: tools/gpu_gate.sh --pack FILE.tar.xz", file=sys.stderr)
        return 2
    build, file = os.environ["WT_BUILD_DIR"], args[0]
    program = os.path.join(build, NAME)
    if not os.path.exists(program):
        print(f"GPU gate stopped: {program} is not there", file=sys.stderr)
        return 2
    too_new = newer_than_ubuntu(program)
    if too_new:
        print(f"GPU gate stopped: {program} needs {too_new}, which Ubuntu 24.04 has not", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, NAME)
        subprocess.run(["strip", "-s", "-o", stripped, program], check=True)
        entries = [(NAME, stripped), ("gpu_tests.txt", os.path.join(build, "gpu_tests.txt"))]
        entries += [(f"lib/{os.path.basename(p)}", os.path.realpath(p)) for p in libraries(program)]
        entries += [(name, os.path.join(build, name)) for name in ("model.jsonl",)
                    if os.path.exists(os.path.join(build, name))]  # fmt: skip
        write(file, entries)
    size = os.path.getsize(file) / 2**20
    print(f"{file}: {size:.1f} MiB, {len(entries)} files")
    if size > MOST_MIB:
        print(f"GPU gate stopped: more than {MOST_MIB} MiB", file=sys.stderr)
        return 1
    return 0


def write(file, entries):
    """Complete or not at all; the same programs give the same bytes."""
    new = file + ".new"
    with tarfile.open(new, "w:xz", preset=6) as tar:
        for name, path in entries:
            info = tar.gettarinfo(path, name)
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            with open(path, "rb") as f:
                tar.addfile(info, f)
    os.replace(new, file)


def libraries(program):
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.findall(r"=> (/\S+)", said)
    return [p for p in found if not NOT_PACKED.search(p)]


def newer_than_ubuntu(program):
    """A versioned symbol that Ubuntu 24.04's C or C++ library has not; "" where there is none."""
    said = subprocess.run(["objdump", "-T", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    for library, version in re.findall(r"\b(GLIBC|GLIBCXX)_([0-9.]+)", said):
        if tuple(map(int, version.split("."))) > NEWEST[library]:
            return f"{library}_{version}"
    return ""


def unpack(file):
    """The folder beside the file that has its content; unpacked once."""
    stat = os.stat(file)
    folder = os.path.abspath(file).removesuffix(".xz").removesuffix(".tar") + ".unpacked"
    stamp, mark = os.path.join(folder, ".of"), f"{stat.st_size} {stat.st_mtime_ns}\n"
    try:
        with open(stamp, encoding="ascii") as f:
            if f.read() == mark:
                return folder
    except OSError:
        pass
    with tarfile.open(file, "r:xz") as tar:
        for member in tar.getmembers():
            if not (member.isfile() and re.fullmatch(r"(lib/)?[\w.+-]+", member.name)):
                raise ValueError(f"is no pack of tools/gpu_gate.sh: it has {member.name!r}")
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    with open(stamp, "w", encoding="ascii") as f:
        f.write(mark)
    return folder
