"""Parts that compare values: every contract's best variant with the cpu, and the tests of cuda."""

import re

from process import Process, wait_any

SILENCE = 30  # seconds without a word from a contract at small sizes: it hangs
ONE = 8  # seconds that are kept for the contract that is under way
TEST_SECONDS = 90  # of one test file; the largest take 20 on a laptop's cpu
AT_ONCE = 6

# Where a broken device or a broken host side shows first; the others follow as they are listed.
FIRST = ("cuda_gpu_test", "cuda_path_test", "capture_test", "captured_step_test", "saved_graph_test",
         "matmul_test", "softmax_test", "optim_step_test", "copy_test", "reduce_test")  # fmt: skip


def check(gate):
    """Every contract's best variant at small odd sizes. A contract that ends the process or hangs is
    put down, and the walk goes on behind it in a new one."""
    while gate.left() > 2:
        done = gate.journal.items("check")
        lost = [n for n, e in done.items() if e.get("ended_process")]
        walk = Walk(gate, gate.journal.at("check"))
        ended = gate.run(walk.argv(lost), gate.left(), quiet=SILENCE, on_line=walk.heard)
        if walk.left:
            gate.goes_on_at("check", walk.left)
            return None
        if ended.code in (0, 1) and walk.counted:
            bad = gate.journal.failed("check")
            return "FAILED: " + " ".join(bad) if bad else "passed"
        if walk.contract is None:
            return "FAILED: " + ended.why()
        if ended.stopped and not ended.stopped.startswith("hung"):  # the part's time is over
            gate.goes_on_at("check", walk.contract)
            return None
        why = "FAILED: " + ended.why()
        gate.item("check", walk.contract, why, ended.seconds, ended_process=True)
        gate.goes_on_at("check", walk.contract)
    return None


class Walk:
    """What a process of `check` says."""

    def __init__(self, gate, at):
        self.gate, self.contract, self.at = gate, None, at
        self.left, self.counted = None, False

    def argv(self, lost):
        o, more = self.gate.options, []
        more += ["--only", o.only] if o.only else []
        more += ["--skip", ",".join(lost)] if lost else []
        more += ["--from", self.at] if self.at else []
        return self.gate.bench("check", "--best", "--json", self.gate.rows, "--for",
                               f"{max(1.0, self.gate.left() - ONE):.0f}", *more, *self.gate.plant("check"))  # fmt: skip

    def heard(self, line):
        if line.startswith("BEGIN "):
            self.contract = line.split()[1]
        elif line.startswith("LEFT: from "):
            self.left = line.split()[2]
        elif line.startswith(("WRONG: ", "FAILED: ", "OUT OF MEMORY: ")):
            if self.contract not in self.gate.journal.failed("check"):  # its first words are enough
                result = line if line.startswith("FAILED: ") else "FAILED: " + line
                self.gate.item("check", self.contract, result[:200], 0)
        elif re.match(r"\d+ launches", line):
            self.counted = True


def tests(gate):
    """Test files, each in a process of its own, several at a time. Then, alone, the test that kills
    the device."""
    files = gate.programs.test_files()
    if gate.options.tests:
        wanted = gate.options.tests.split(",")
        files = [f for f in files if f[0] in wanted]
    files.sort(key=lambda f: FIRST.index(f[0]) if f[0] in FIRST else len(FIRST))
    left = [f for f in files if label(f) not in gate.journal.items("tests")]
    complete = several(gate, left)
    if complete and not gate.options.tests and "gpu_fatal" not in gate.journal.items("tests"):
        complete = one_test(gate, "gpu_fatal", ["[gpu_fatal]"])
    if not complete:
        return None
    bad = gate.journal.failed("tests")
    return "FAILED: " + " ".join(bad) if bad else "passed"


def label(file):
    name, shard = file
    return name if shard == "1/1" else f"{name} {shard}"


def several(gate, files):
    """True when all have ended; what the part's end cuts off is tried again by the next call."""
    running, files = {}, list(files)
    try:
        while running or files:
            while files and len(running) < AT_ONCE and gate.left() > 3:
                file = files.pop(0)
                running[label(file)] = start(gate, ["-#", f"[#{file[0]}]"], file[1])
            if not running:
                return False
            wait_any(running.values())
            for name, p in list(running.items()):
                if (ended := p.poll()) is not None:
                    del running[name]
                    judge(gate, name, ended)
            if gate.left() <= 0:
                return False
    finally:
        for p in running.values():
            p.stop("the part's time is over")
    return True


def one_test(gate, name, args):
    if gate.left() < 3:
        return False
    p = start(gate, args, "1/1")
    while (ended := p.poll()) is None:
        wait_any([p])
    judge(gate, name, ended)
    return True


def start(gate, args, shard):
    env = {**gate.programs.env, "WT_TEST_DEVICES": "cpu,cuda", "OPENBLAS_NUM_THREADS": "1",
           "WT_FIRST_USE": "off", "WT_SHARD": shard}  # fmt: skip
    return Process(gate.programs.tests(*args), clock=gate.clock, log=gate.log, limit=TEST_SECONDS, env=env)


def judge(gate, name, ended):
    if ended.code == 0 and any(line.startswith("All tests passed") for line in ended.lines):
        skipped = [line for line in ended.lines if line.strip().startswith("SKIPPED:")]
        result = "passed" if not skipped else f"passed, {len(skipped)} skipped: {skipped[0].strip()[9:][:100]}"
    else:
        cases = failed_cases(ended.lines)
        result = "FAILED: " + ("; ".join(cases)[:300] or ended.why())
    gate.item("tests", name, result, ended.seconds)


def failed_cases(lines):
    """Names of the test cases that Catch2 reports: between two rules, the source's line below."""
    names = []
    for i in range(2, len(lines)):
        if set(lines[i]) == {"-"} and lines[i - 1].strip() and not lines[i - 1].startswith(" "):
            begin = i - 1
            while begin > 0 and set(lines[begin]) != {"-"}:
                begin -= 1
            name = lines[begin + 1].strip()
            if name and name not in names:
                names.append(name)
    return names
