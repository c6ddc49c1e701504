"""Where wt_gpu is, and the libraries that it is run with."""

import importlib.util
import os
import shutil
import subprocess

NAME = "wt_gpu"
TOOLKIT = "/usr/local/cuda/lib64"


def wheel_folders():
    """Folders with libraries in Python's `nvidia` wheels, of either layout: nvidia/cublas/lib and
    nvidia/cu13/lib."""
    spec = importlib.util.find_spec("nvidia")
    found = []
    for root in (spec.submodule_search_locations if spec else None) or []:
        for name in sorted(os.listdir(root)):
            lib = os.path.join(root, name, "lib")
            if os.path.isdir(lib):
                found.append(lib)
    return found


class Programs:
    """A folder that has wt_gpu in it: a build tree, or a pack that was unpacked."""

    def __init__(self, folder, emulator=None):
        self.folder = os.path.abspath(folder)
        self.program = os.path.join(self.folder, NAME)
        if not os.access(self.program, os.X_OK):
            raise FileNotFoundError(f"{self.program} is not there")
        places = [emulator] if emulator else []
        own = os.path.join(self.folder, "lib")
        places += [own] if os.path.isdir(own) else []
        places += [TOOLKIT] if os.path.isdir(TOOLKIT) and not emulator else []
        places += wheel_folders()
        before = os.environ.get("LD_LIBRARY_PATH")
        self.env = dict(os.environ)
        if emulator:
            self.env["WT_EMU_CHECK"] = "report"  # findings are words; exit codes are the program's
        self.env["LD_LIBRARY_PATH"] = ":".join(places + ([before] if before else []))

    def missing(self):
        """Libraries that are not found, in words; "" where all are."""
        ldd = shutil.which("ldd")
        if not ldd:
            return ""
        said = subprocess.run([ldd, self.program], env=self.env, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout  # fmt: skip
        lost = [line.split("=>")[0].strip() for line in said.splitlines() if "not found" in line]
        return ", ".join(lost)

    def bench(self, *args):
        return [self.program, "bench", *args]

    def tune(self, *args):
        return [self.program, "tune", *args]

    def tests(self, *args):
        return [self.program, "tests", *args]

    def test_files(self):
        """(name, "1/4") of the test files that walk cuda."""
        with open(os.path.join(self.folder, "gpu_tests.txt"), encoding="utf-8") as f:
            return [tuple(line.split()) for line in f if line.strip()]
