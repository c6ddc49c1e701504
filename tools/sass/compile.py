"""compile.py COMPILE_COMMANDS ARCH FOLDER JOBS: the kernels' cubins for another architecture.

The commands are those of the build tree, launchers (the compiler cache) included, without what
belongs to the host's part and to the other architecture.
"""
import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DROPPED = ("--generate-code", "-Xcompiler", "-Xptxas", "-Werror", "--compress-mode", "-o", "-c", "-x",
           "-forward-unknown-to-host-compiler")
WITH_VALUE = ("-Xcompiler", "-Xptxas", "-Werror", "-o", "-x")


def command_for(entry, arch, out):
    words, kept, at = shlex.split(entry["command"]), [], 0
    while at < len(words):
        word = words[at]
        option = word.split("=")[0]
        if option in DROPPED:
            at += 1 + (option in WITH_VALUE and "=" not in word)
            continue
        if word != entry["file"]:
            kept.append(word)
        at += 1
    code = arch.removeprefix("sm_")
    launcher = ["ccache"] if _has("ccache") and not any("ccache" in w for w in kept) else []
    return launcher + kept + [f"--generate-code=arch=compute_{code},code={arch}", "-cubin", "-o",
                              str(out), "-c", entry["file"]]


def _has(program):
    return subprocess.run(["which", program], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def main():
    if len(sys.argv) != 5:
        asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    commands, arch, folder, jobs = sys.argv[1:]
    entries = [e for e in json.loads(Path(commands).read_text())
               if "wt_kernels_cuda.dir" in e["command"]]
    for old in Path(folder).glob("*.cubin"):
        old.unlink()

    def run(entry):
        out = Path(folder, Path(entry["file"]).stem + f".{arch}.cubin").resolve()
        done = subprocess.run(command_for(entry, arch, out), cwd=entry["directory"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return f"{entry['file']}: {done.stdout}" if done.returncode else ""

    with ThreadPoolExecutor(int(jobs)) as pool:
        bad = [said for said in pool.map(run, entries) if said]
    print("\n".join(bad), end="", file=sys.stderr)
    return 1 if bad or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
