"""The logic of tools/mutate.sh, which says what the options are."""
import argparse
import datetime
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faults
import results
from overlay import Overlay, Tree
from results import Outcome, Result
from suite import NO_CASE, Near, Part, Runner, now

ROOT = Path(__file__).resolve().parents[2]
RESULT = "bench/results/mutants.txt"
EQUIVALENT = "tests/mutants/equivalent.txt"
MOST_OBJECTS = 40  # a header that more objects include costs too many minutes
AGAIN_SECONDS = 180  # CPU time of --again in all


def say(*lines):
    print(*lines, sep="\n", flush=True)


def files_of(root):
    listed = results.git(root, "ls-files", "--cached", "--others", "--exclude-standard")
    if listed:
        return [f for f in listed.split("\n") if (root / f).is_file()]
    folders = ("autograd", "cmake", "core", "data", "kernels", "nn", "optim", "tests", "tools")
    return [p.relative_to(root).as_posix() for d in folders for p in (root / d).rglob("*")
            if p.is_file()]


class Session:
    """One built tree, and what runs faulty programs over it."""

    def __init__(self, root, build, scratch, runner):
        self.root, self.scratch, self.runner = Path(root), Path(scratch), runner
        self.tree = Tree(root, build)
        self.near = Near(root)
        self.files = files_of(self.root)
        self.seconds, self.red = {}, {}
        self.overlays, self.lock, self.locks = [], threading.Lock(), {}

    def overlay(self):
        with self.lock:
            if self.overlays:
                return self.overlays.pop()
        return Overlay(self.tree, tempfile.mkdtemp(dir=self.scratch, prefix="w"), self.files)

    def compile(self, command, cwd):
        # Nobody compiles a fault twice: the compiler cache is better without it.
        code, out = self.runner.run(command, cwd, {"CCACHE_DISABLE": "1"}, shell=True,
                                    limited=False)
        if code and os.environ.get("WT_MUTANTS_VERBOSE"):
            say(out)
        return code if code is not None else 1

    def passes(self, part):
        """Whether the part passes without a fault; also measures it. Once for each part."""
        with self.lock:
            own = self.locks.setdefault(part.name, threading.Lock())
        with own:
            if part.name not in self.seconds:
                folder = self.run_folder(Path(tempfile.mkdtemp(dir=self.scratch, prefix="b")))
                begin = now()
                case, _ = self.runner.test(self.tree.build / self.tree.program, part, folder, 900)
                self.seconds[part.name] = now() - begin
                if case:
                    self.red[part.name] = case
                    say(f"RED WITHOUT A FAULT, not used: {part.name}: {case}")
        return part.name not in self.red

    def run_folder(self, folder):
        """Tests look for their files upwards from where they are run."""
        (folder / "tests").symlink_to(self.tree.source / "tests")
        return folder

    def limit(self, part):
        return 20 + 10 * self.seconds.get(part.name, 2)

    def judge(self, fault, only_parts=(), only_case=""):
        """Builds a fault and tests it. An Outcome, or in words why it is no fault."""
        users = self.tree.users.get(fault.file, ())
        if not users or len(users) > MOST_OBJECTS:
            return f"{len(users)} objects include the file"
        over = self.overlay()
        spent = cpu_seconds()
        try:
            over.plant(fault.file, fault.line, fault.after)
            program, why = over.build(fault.file, self.compile)
            if not program:
                return why
            killer, case, ran = None, "", False
            folder = self.run_folder(program.parent)
            # What killed it once may be another case's by now: of its file, if it is still there.
            tries = [(part, c) for c in dict.fromkeys((only_case, "")) for part in only_parts]
            for part, name in tries or ((p, "") for p in self.near.order(
                    fault.file, fault.line, self.seconds)):
                if not only_parts and not self.passes(part):
                    continue
                case, row = self.runner.test(program, part, folder, self.limit(part), name)
                if case == NO_CASE:
                    continue
                ran = True
                # Twice, so that a test that fails now and then kills nothing.
                if case and (case == "time" or self.runner.test(program, part, folder,
                                                                self.limit(part), name)[0]):
                    killer = Part(f"ops:{row}") if row else part
                    break
            outcome = Outcome(fault, "killed" if killer else "survived", objects=len(users),
                              seconds=cpu_seconds() - spent)
            if not ran:
                return "its test has another name now"
            if killer:
                outcome.part, outcome.case = killer.name, case
            return outcome
        finally:
            if not self.runner.stopped:
                over.remove(fault.file)
                with self.lock:
                    self.overlays.append(over)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def in_words(n, o):
    f = o.fault
    by = {"killed": f"killed by {o.part}: {o.case}", "survived": "SURVIVED",
          "equivalent": f"equivalent: {o.reason}"}[o.outcome]
    return f"m{n:02} {f.file}:{f.line} {f.kind}: {f.words()}\n    {by}"


def commit_tree(scratch, options, runner):
    """The commit's files, built plain and without unity batches: one fault is one object."""
    if not results.git(ROOT, "rev-parse", "--verify", f"{options.commit}^{{commit}}"):
        raise SystemExit(f"mutate: no commit {options.commit} here; --build DIR needs none")
    source = Path(scratch) / "src"
    source.mkdir()
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", options.commit],
                               stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(source)], stdin=archive.stdout, check=True)
    archive.wait()
    build = source / "build" / "plain"
    for command in (["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja",
                     "-DCMAKE_BUILD_TYPE=Release", "-DWARPTAPE_FLAVOURS=plain",
                     "-DWARPTAPE_WERROR=ON", "-DWARPTAPE_WITH_CUDA=OFF"],
                    ["cmake", "--build", str(build), "--parallel", str(options.jobs), "--target",
                     "wt_tests"]):
        code, out = runner.run(command, source, seconds=3600, limited=False)
        if code != 0:
            raise SystemExit(f"mutate: the tree does not build\n{out[-3000:]}")
    return source, build


def key(fault):
    return fault.file, fault.before.strip(), fault.after.strip()


def unchanged(options):
    """What --update keeps: its outcome of a fault, or None: it is to be judged."""
    if not options.update or not Path(options.update).exists():
        return lambda fault: None
    old = results.read(options.update)
    if not results.git(ROOT, "rev-parse", "--verify", f"{old.commit}^{{commit}}"):
        raise SystemExit(f"mutate: {options.update} is of commit {old.commit}, which is not here")
    changed = set(results.git(ROOT, "diff", "--name-only", old.commit, options.commit).split("\n"))
    killed = {key(o.fault): o for o in old.outcomes if o.outcome == "killed"}

    def outcome(fault):
        if fault.file in changed or key(fault) not in killed:
            return None
        o = killed[key(fault)]
        return Outcome(fault, o.outcome, o.part, o.case, o.objects, o.seconds)
    return outcome


def run(options, scratch, runner):
    begin = now()
    source, build = (ROOT, options.build) if options.build else commit_tree(scratch, options, runner)
    session = Session(source, build, scratch, runner)
    say(f"tree built: {now() - begin:.0f} s")
    slots = faults.draw(faults.all_faults(source, options.only), options.count, options.seed)
    equivalent = results.read_equivalent(source / EQUIVALENT)
    result = Result(commit=results.git(ROOT, "rev-parse", options.commit),
                    date=datetime.date.today().isoformat(), seed=options.seed)
    kept = unchanged(options)
    shown = threading.Lock()
    found = [None] * len(slots)

    def slot(number):
        for fault in slots[number]:
            if key(fault) in equivalent:
                return Outcome(fault, "equivalent", reason=equivalent[key(fault)])
            verdict = kept(fault) or session.judge(fault)
            if isinstance(verdict, Outcome):
                return verdict
            with shown:
                result.redrawn += 1
        return None

    def judged(number):
        verdict = slot(number)
        with shown:
            found[number] = verdict
            result.outcomes = [o for o in found if o]
            if verdict:
                say(in_words(len(result.outcomes), verdict))

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            list(pool.map(judged, range(len(slots))))
        except BaseException:
            runner.stopped = True
            raise
        finally:
            if options.output and result.outcomes:
                result.write(options.output)
    say("", *[in_words(n, o) for n, o in enumerate(result.outcomes, 1) if o.outcome != "killed"])
    say("", *result.table(), "", f"mutants: {result.summary()}; {result.redrawn} did not compile or "
        f"changed no machine code and were drawn again; {now() - begin:.0f} s")
    enough = result.score() >= 95
    if not enough:
        say("FAILED: at least 95 % are to be killed")
    return 0 if enough and not session.red else 1


def show(result):
    say(f"mutants: {result.summary()}")
    say(f"  commit {result.commit[:12]}, seed {result.seed}, {result.date}: "
        f"{results.age(ROOT, result.commit, result.date)}")
    changed = results.git(ROOT, "diff", "--name-only", result.commit, "HEAD", "--", "kernels",
                          "autograd")
    if changed:
        count = len(changed.split("\n"))
        say(f"  WARNING: {count} files of kernels and autograd changed since: "
            "tools/nightly.sh mutants")


def again(options, scratch, runner):
    """Some of the committed result's killed faults once more, each by the test that killed it."""
    path = ROOT / RESULT
    if not path.exists():
        say(f"no {RESULT} yet: tools/nightly.sh mutants writes it")
        return 77
    result = results.read(path)
    show(result)
    # A fault is looked for by its line's text: other lines may have moved it.
    found = []
    for o in result.outcomes:
        f = o.fault
        file = ROOT / f.file
        if o.outcome != "killed" or o.case == "time" or o.objects > 2 or not file.exists():
            continue
        lines = [n for n, text in enumerate(file.read_text().split("\n"), 1)
                 if text.strip() == f.before]
        if lines:
            found.append((min(lines, key=lambda n: abs(n - f.line)), o))
    random.Random(results.git(ROOT, "rev-parse", "HEAD") or "no commit").shuffle(found)
    session = Session(ROOT, options.build or ROOT / "build/ci", scratch, runner)
    done, bad = 0, 0
    for line, old in found:
        spent = cpu_seconds()
        if done == options.again:
            break
        if spent > AGAIN_SECONDS * 2 / 3:
            say(f"  {done} of {options.again}: no CPU time is left")
            break
        f = faults.Fault(old.fault.file, line, old.fault.kind, old.fault.before, old.fault.after)
        indented = f.after and re.match(r"\s*", (ROOT / f.file).read_text().split("\n")[line - 1])[0]
        verdict = session.judge(faults.Fault(f.file, line, f.kind, f.before,
                                             (indented or "") + f.after),
                                Part(old.part).shards(), old.case)
        if not isinstance(verdict, Outcome):
            say(f"  {f.file}:{line} {f.words()}: not here any more ({verdict})")
            continue
        done += 1
        bad += verdict.outcome != "killed"
        say(f"  {f.file}:{line} {f.words()}",
            f"    {'killed again' if verdict.outcome == 'killed' else 'SURVIVED'}"
            f" ({verdict.part or old.part}: {verdict.case or old.case}), {verdict.seconds:.0f} CPU s")
    if bad:
        say(f"FAILED: {bad} faults survive that the suite killed at {result.commit[:12]}")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(prog="mutate", description="tools/mutate.sh --help says what they do")
    parser.add_argument("--count", type=int, default=84)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--output", default="")
    parser.add_argument("--update", default="")
    parser.add_argument("--again", type=int, default=0)
    parser.add_argument("--build", default="")
    options = parser.parse_args()
    if options.build and options.output:
        parser.error("--output is for a commit's own tree, not for one in --build")
    if options.list:
        found = faults.all_faults(ROOT, options.only)
        for tries in faults.draw(found, options.count, options.seed):
            say(f"{tries[0].file}:{tries[0].line} {tries[0].kind}: {tries[0].words()}")
        say(f"of {len(found)} faults in {len({(f.file, f.line) for f in found})} lines")
        return 0
    runner = Runner()

    def stop(*_):
        runner.stopped = True
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with tempfile.TemporaryDirectory(prefix="wt-mutants-", ignore_cleanup_errors=True) as scratch:
        try:
            return (again if options.again else run)(options, scratch, runner)
        except KeyboardInterrupt:
            say("mutate: interrupted")
            return 130


if __name__ == "__main__":
    sys.exit(main())
