#!/usr/bin/env python3
"""What nvcc makes of docs/course/code/*.cu: PTX, and machine code where there is a disassembler.

course_listings.py           writes the .ptx and .sass beside them
course_listings.py --check   compares these with what is made now; exit code 1 if one differs, 77 where
                             there is no nvcc, or another one than they are of
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def disassembler(root):
    done = subprocess.run(
        ["bash", str(Path(root, "tools/sass/get.sh")), "--where"], stdout=subprocess.PIPE, text=True, check=False
    )
    return Path(done.stdout.strip(), "nvdisasm") if done.returncode == 0 else None


def machine_code(nvdisasm, cubin):
    """The instructions, a kernel after the other by name."""
    said = subprocess.run([str(nvdisasm), "-c", str(cubin)], stdout=subprocess.PIPE, text=True, check=True).stdout
    kernels, inside = {}, None
    for line in said.splitlines():
        label = re.match(r"\.text\.(\w+):$", line)
        if label:
            inside = kernels.setdefault(label[1], [])
        line = re.match(r"\s+/\*([0-9a-f]{4})\*/\s+(.*?)\s*;$", line)
        if line and inside is not None:
            inside.append(f"  {line[1]}  {line[2]}")
    for lines in kernels.values():  # what follows the last EXIT is filling
        while lines and not lines[-1].endswith("EXIT"):
            lines.pop()
    return "\n".join(f"{name}:\n" + "\n".join(lines) + "\n" for name, lines in sorted(kernels.items()))


def listings(root, check):
    nvcc = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc" if Path("/usr/local/cuda/bin/nvcc").exists() else None)
    if not nvcc:
        print("SKIPPED: no nvcc, so docs/course/code is not compiled")
        return 77
    version = re.search(
        r"V[\d.]+", subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    )[0]
    head = f"// Made by nvcc {version} for sm_90a: tools/generators/course_listings.py\n"
    bad, seen, left_out = [], 0, []
    with tempfile.TemporaryDirectory(prefix="wt-course-") as here:
        for source in sorted(Path(root, "docs/course/code").glob("*.cu")):
            made = {}
            for kind in ("ptx", "cubin"):
                out = Path(here, f"{source.stem}.{kind}")
                subprocess.run([nvcc, "-arch=sm_90a", f"-{kind}", str(source), "-o", str(out)], check=True)
            made["ptx"] = head + re.sub(r"\A(?://.*\n|\n)+", "", Path(here, f"{source.stem}.ptx").read_text())
            tool = disassembler(root)
            if tool:
                made["sass"] = head + machine_code(tool, Path(here, f"{source.stem}.cubin"))
            else:
                left_out.append("no nvdisasm (tools/setup.sh --tests): machine code is not compared")
            for kind, text in made.items():
                path = source.with_suffix("." + kind)
                seen += 1
                if not check:
                    path.write_text(text)
                    continue
                there = path.read_text() if path.is_file() else ""
                if there.partition("\n")[0] + "\n" != head and there:
                    print(f"SKIPPED: {path.name} is of another nvcc than {version}")
                    return 77
                if there != text:
                    bad.append(f"docs/course/code/{path.name} is not what nvcc makes of {source.name}")
    print("\n".join(bad + sorted(set(left_out)) + [f"{seen} listings {'compared' if check else 'written'}"]))
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", default=str(Path(__file__).resolve().parents[2]), help="another tree")
    args = parser.parse_args()
    return listings(args.root, args.check)


if __name__ == "__main__":
    sys.exit(main())
