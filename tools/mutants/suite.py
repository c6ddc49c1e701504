"""The test program's parts: which are near a file, and how one of them is run."""
import os
import re
import resource
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROW_CASES = "operators: values*,operators: first*,operators: error*"
SUFFIX = re.compile(r"_(cpu|blas|packed|tiny|vector|widened|device|mma|kernels|math|formulas|call"
                    r"|activations|binary|backward|blocked|rows|list|loops|checks)$")
MEMORY = 4 << 30  # resident: the executor and OpenBLAS reserve far more than they use
NO_CASE = "no test case ran"


@dataclass(frozen=True)
class Part:
    """`ops:NAME`: the operator's row. `file:NAME` or `file:NAME:i/n`: a test file or a shard."""
    name: str

    def command(self, program, case=""):
        kind, _, rest = self.name.partition(":")
        env = {"WT_OPTEST": "", "WT_SHARD": "1/1"}
        if kind == "ops":
            env["WT_OPTEST"] = f"--op {rest}"
            spec = ROW_CASES
        else:
            file, _, shard = rest.partition(":")
            env["WT_SHARD"] = shard or "1/1"
            spec = f"[#{file}]"
        if case:
            spec = '"' + case.replace('"', "?").replace(",", "\\,") + '"'
        return [str(program), "-#", spec], env

    def shards(self):
        """The part, then the others of its file: a row moves to another shard when one is added."""
        file, slash, n = self.name.rpartition("/")
        if not slash:
            return [self]
        stem = file.rpartition(":")[0]
        return [self] + [p for i in range(1, int(n) + 1)
                         if (p := Part(f"{stem}:{i}/{n}")) != self]


class Runner:
    """Runs programs in groups of their own, so that stopping leaves none behind. Whoever waits for
    one looks whether it is to stop: a signal handler sets `stopped` and no more, as the thread that
    it interrupts may hold any lock and may be between starting a process and noting it."""

    def __init__(self):
        self.stopped = False

    def run(self, command, cwd, env=None, seconds=600, shell=False, limited=True):
        """Exit code (None: out of time) and output. Time is CPU time, and 4 times that by the
        clock: a loaded machine makes nothing a hang."""
        if self.stopped:
            raise KeyboardInterrupt
        p = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, shell=shell,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
        # From outside: Python code between fork and exec may wait for ever where threads are.
        resource.prlimit(p.pid, resource.RLIMIT_CORE, (0, 0))
        resource.prlimit(p.pid, resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        if limited:
            resource.prlimit(p.pid, resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
        code, out, end = None, b"", now() + seconds * 4 + 30
        try:
            while (now() < end and not self.stopped
                   and (not limited or resident(p.pid) < MEMORY)):
                try:
                    out, _ = p.communicate(timeout=0.5)
                except subprocess.TimeoutExpired:
                    continue
                code = p.returncode
                break
            if code in (-signal.SIGXCPU, -signal.SIGKILL):
                code = None
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if p.returncode is None:
                p.communicate()
        if self.stopped:
            raise KeyboardInterrupt
        return code, out.decode(errors="replace")

    def test(self, program, part, folder, seconds, case="", stop_early=True):
        """What the part says of the program: "" (it passes), "time" or the case that fails; and the
        operator whose row failed, where the matrix names one."""
        command, env = part.command(program, case)
        # One folder for whatever a faulty program writes.
        env.update(OPENBLAS_NUM_THREADS="1", TMPDIR=str(folder), HOME=str(folder))
        code, out = self.run(command + (["-a"] if stop_early else []), folder, env, seconds)
        if code is None:
            return "time", ""
        ran = re.search(r"^All tests passed|^test cases:", out, re.M)
        if code == 0 and ran and "No test cases matched" not in out:
            return "", ""
        if code == 0:
            return NO_CASE, ""
        row = re.search(r"WT_OPTEST='--op\s+(\w+)", out)
        return (failing_cases(out)[0] if failing_cases(out) else f"exit code {code}",
                row[1] if row else "")


def failing_cases(out):
    """Names in the headers that Catch2 prints over a failure; a section's name comes after."""
    return re.findall(r"^-{50,}\n(\S.*)\n(?:  .*\n)*-{50,}", out, re.M)


def parts_of(root):
    """Every part of the suite: the test files, with the options that CMakeLists.txt gives some."""
    text = (Path(root) / "CMakeLists.txt").read_text()
    body = re.search(r"^wt_tests\((.*?)\)", text, re.M | re.S)[1]
    options = dict(re.findall(r"^\s+(\w+)(.*)", body, re.M))
    parts = []
    for file in sorted((Path(root) / "tests").rglob("*_test.cpp")):
        given = options.get(file.stem.removesuffix("_test"), "")
        if "LABELS gpu" in given:
            continue
        shards = re.search(r"SHARDS (\d+)", given)
        n = int(shards[1]) if shards else 1
        parts += [Part(f"file:{file.stem}" + (f":{i}/{n}" if n > 1 else "")) for i in range(1, n + 1)]
    return parts


class Near:
    """Which parts are near a line."""

    def __init__(self, root):
        self.root = Path(root)
        self.parts = parts_of(root)
        self.contracts = {}  # operator -> its contracts
        facts = (self.root / "tools/op_facts.inc").read_text()
        for m in re.finditer(r'^\{"(\w+)", "[^"]*", \d, \d+, "([^"]*)",', facts, re.M):
            self.contracts[m[1]] = set(m[2].split())
        if facts and not self.contracts:
            raise SystemExit("mutate: tools/op_facts.inc looks otherwise than expected")

    def operators(self, file, line):
        text = (self.root / file).read_text()
        if file.startswith("autograd/"):
            names = re.findall(r'OpInfo \w+\{\s*\.name = "(\w+)"', text)
            near = re.findall(r'info::(\w+)', "\n".join(text.split("\n")[line - 1:line + 40]))
            return sorted(set(names) & set(self.contracts), key=lambda n: (n not in near, n))
        if not file.startswith("kernels/"):
            return []
        above = "\n".join(text.split("\n")[:line])
        named = re.findall(r"(?:struct |WT_[A-Z_]+\()([A-Z]\w+)", above)
        if named:
            name = re.sub(r"(?<!^)([A-Z])", r"_\1", named[-1]).lower()
            if name in self.contracts:
                return [name]
        contracts = set(re.findall(r"WT_CONTRACT\((\w+)", text))
        contracts |= set(re.findall(r"WT_VARIANTS\(\w+, (\w+)", text))
        header = self.root / "kernels" / (self.stem(file) + ".h")
        if header.exists():
            contracts |= set(re.findall(r"WT_CONTRACT\((\w+)", header.read_text()))
        return sorted(op for op, has in self.contracts.items() if has & contracts)

    def stem(self, file):
        stem = Path(file).stem
        while SUFFIX.search(stem):
            stem = SUFFIX.sub("", stem)
        return stem

    def order(self, file, line, seconds):
        """All parts, the near ones first: rows of up to 5 operators, the test files of the same
        name, then the operator matrix, then the others, quick ones first."""
        stem = self.stem(file)
        first = [Part(f"ops:{op}") for op in self.operators(file, line)[:5]]
        named = [p for p in self.parts if re.fullmatch(
            rf"file:(ops_)?{stem}(_gpu)?_test.*", p.name)]
        matrix = [p for p in self.parts if p.name.startswith("file:ops_test")]
        rest = sorted((p for p in self.parts if p not in named and p not in matrix),
                      key=lambda p: seconds.get(p.name, 1))
        if file.startswith("core/"):
            return named + rest + matrix
        return first + named + matrix + rest


def resident(pid):
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, IndexError):
        return 0


def now():
    return time.monotonic()
