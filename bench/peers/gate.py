#!/usr/bin/env python3
"""Gates G5a, G5b, G5e, G8, G4d, G7: `wt bench overhead` and, with --data, `wt bench loader` against
PyTorch, libtorch and JAX in one run.

A is our tool, B is every installed peer, one process an implementation, in the order A B B A for
each number of threads, all pinned to the same cores. Of each peer the mode with the lowest median
counts; all modes are printed. A ratio is peer time / our time. It passes when the ratio of the
medians reaches the gate and neither of the two pairs says that the peer was faster (its ratio is
above 1). Standard library only.

stdout: the JSON lines as they come, then the tables; the gates last.
exit: 0 passed, or skipped because no peer is installed; 1 below a gate, or the peers did not do
the same work; 2 usage; 7 our tool or an installed peer failed, so that a gate has no figure.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

from common import BENCHES

HERE = pathlib.Path(__file__).resolve().parent
CHECK_TOLERANCE = 1e-3  # relative, between peers' losses after 20 steps: f32, another order of sums

# id, row, threads, peers of which the best counts, ratio to reach
GATES = (
    ("G5a", "tape_add", 1, ("torch",), 35.0),
    ("G5b", "mlp_tiny", 1, ("torch",), 40.0),
    ("G5b", "mlp_tiny", 1, ("jax",), 5.0),
    ("G5e", "mlp_small", 1, ("torch", "libtorch"), 1.0),
    ("G5e", "mlp_small", 2, ("torch", "libtorch"), 1.0),
    ("G8", "mnist_cnn", 1, ("torch", "libtorch", "jax"), 1.0),
    ("G8", "mnist_cnn", 2, ("torch", "libtorch", "jax"), 1.0),
    ("G8", "fashion_cnn", 1, ("torch", "libtorch"), 1.0),
    ("G8", "fashion_cnn", 2, ("torch", "libtorch"), 1.0),
    ("G8", "gpt_small", 1, ("torch", "libtorch"), 1.0),
    ("G8", "gpt_small", 2, ("torch", "libtorch"), 1.0),
    ("G4d", "adam_step", 1, ("torch", "libtorch"), 1.0),
    ("G4d", "adam_step", 2, ("torch", "libtorch"), 1.0),
    ("G7", "loader", 1, ("torch",), 1.0),
    ("G7", "loader", 2, ("torch",), 1.0),
)
TAPE_ADD_NS = 150  # G5a's absolute figure: printed, not judged, since it depends on the machine


def peer_of(impl):
    return impl.split()[0]


def find_peers(venv):
    """[(name, command)]: what is installed under `venv`, one entry a process."""
    python, found = venv / "bin" / "python", []
    site = sorted(venv.glob("lib/python*/site-packages"))

    def has(package):
        return python.exists() and any((s / package).is_dir() for s in site)

    if has("torch"):
        found.append(
            ("torch", [python, HERE / "peer_torch.py", "--mode", "eager", "--mode", "fused"])
        )
        found.append(("torch compile", [python, HERE / "peer_torch.py", "--mode", "compile"]))
    if (venv / "bin" / "peer_libtorch").exists():
        found.append(("libtorch", [venv / "bin" / "peer_libtorch"]))
    if has("jax"):
        found.append(("jax", [python, HERE / "peer_jax.py"]))
    return [(name, [str(word) for word in command]) for name, command in found]


def machine():
    model = platform.processor() or platform.machine()
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores"


def commit():
    try:
        done = subprocess.run(
            ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:  # no git
        return "unknown"
    return done.stdout.strip() or "unknown"


def idle_cores(count):
    """The `count` cores of ours that were least busy over the last 0.3 s."""

    def busy():
        out = {}
        for line in pathlib.Path("/proc/stat").read_text().splitlines():
            if line.startswith("cpu") and line[3].isdigit():
                name, *ticks = line.split()
                ticks = [int(t) for t in ticks]
                out[int(name[3:])] = sum(ticks) - ticks[3] - ticks[4]
        return out

    before = busy()
    time.sleep(0.3)
    after = busy()
    allowed = sorted(os.sched_getaffinity(0), key=lambda c: after.get(c, 0) - before.get(c, 0))
    return set(allowed[:count])


class Run:
    """Starts the programs and keeps their rows."""

    def __init__(self, budget_s, data, benches):
        self.data, self.benches = str(data) if data else None, benches
        self.deadline = time.monotonic() + budget_s
        self.rows, self.failures = [], []
        self.env = dict(os.environ, PEERS_COMMIT=commit(), PEERS_MACHINE=machine())

    def program(self, name, command, threads, cores, side, turn):
        env = dict(
            self.env,
            OMP_NUM_THREADS=str(threads),
            OPENBLAS_NUM_THREADS=str(threads),
            MKL_NUM_THREADS=str(threads),
        )
        left = self.deadline - time.monotonic()
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env=env,
                timeout=max(left, 0.1),
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.failed(name, threads, "the time for the whole run was spent")
            return
        except OSError as error:
            self.failed(name, threads, str(error))
            return
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            self.failed(name, threads, f"exit {done.returncode}: {said}")
            return
        if turn is None:  # a warm-up
            return
        for line in done.stdout.splitlines():
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            if row.get("bench") in BENCHES and row.get("threads", threads) == threads:
                print(line, flush=True)
                self.rows.append(dict(row, threads=threads, side=side, turn=turn))

    def tool(self, tool, threads, cores, turn):
        if tool:
            rows = [b for b in self.benches if b != "loader"]
            command = [tool, "bench", "overhead", "--json", "--threads", str(threads)]
            for bench in rows if rows != [b for b in BENCHES if b != "loader"] else ():
                command += ["--only", bench]
            if rows:
                self.program("our tool", command, threads, cores, "A", turn)
        if tool and self.data and "loader" in self.benches:
            command = [tool, "bench", "loader", "--json", "--no-tiers", "--data", self.data]
            for workers in range(threads + 1 if threads > 1 else 1):
                command += ["--workers", str(workers)]
            self.program("our loader", command, threads, cores, "A", turn)

    def peers(self, peers, threads, cores, window_s, turn):
        for name, command in peers:
            options = ["--threads", str(threads), "--window-s", str(window_s)]
            if self.data:
                options += ["--data", self.data]
            for bench in self.benches if self.benches != list(BENCHES) else ():
                options += ["--bench", bench]
            self.program(name, command + options, threads, cores, "B", turn)

    def failed(self, name, threads, why):
        if not any(f[:2] == (name, threads) for f in self.failures):
            self.failures.append((name, threads, why))
            print(f"no figure from {name}, {threads} threads: {why}", file=sys.stderr, flush=True)

    def figures(self, bench, threads, side):
        """{impl: [(median, min) of each turn]} of the implementations that answered in both."""
        out = {}
        for row in self.rows:
            if (row["bench"], row["threads"], row["side"]) == (bench, threads, side):
                figure = (row["median_us"], row.get("min_us") or row["median_us"])
                out.setdefault(row["impl"], {})[row["turn"]] = figure
        return {impl: [turns[0], turns[1]] for impl, turns in out.items() if len(turns) == 2}


def middle(figure):
    return statistics.median(m for m, _ in figure)


def best_of(figures):
    return min(figures.items(), key=lambda item: middle(item[1]), default=(None, None))


def columns(figure):
    return f"{middle(figure):>12.4g}{min(m for _, m in figure):>12.4g}"


def compare(ours, peer):
    """(ratio of the medians, worst pair, best pair)"""
    pairs = [p[0] / o[0] for p, o in zip(peer, ours)]
    return middle(peer) / middle(ours), min(pairs), max(pairs)


def same_work(rows):
    """A line of words for every row whose loss after the same steps is another than the first's."""
    wrong, first = [], {}
    for row in rows:
        loss = row.get("check_loss")
        if loss is None:
            continue
        name, want = first.setdefault(row["bench"], (row["impl"], loss))
        if not abs(loss - want) <= CHECK_TOLERANCE * abs(want):
            wrong.append(
                f"{row['bench']}: {row['impl']} ends at loss {loss:.7g}, {name} at {want:.7g}"
            )
    return sorted(set(wrong))


def roof_of(run, bench, threads):
    """How much of memcpy's rate our row reached, where it says that."""
    rows = [r for r in run.rows if (r["bench"], r["threads"], r["side"]) == (bench, threads, "A")]
    ratios = [r["ratio"] for r in rows if r.get("ratio")]
    return f"   {min(ratios):.2f} of memcpy's rate" if ratios else ""


def tables(run, threads_list):
    for threads in threads_list:
        for bench in BENCHES:
            peers = run.figures(bench, threads, "B")
            _, ours = best_of(run.figures(bench, threads, "A"))
            if not peers and ours is None:
                continue
            plural = "s" if threads > 1 else ""
            print(f"\n{bench}, {threads} thread{plural}, us (median of two runs, minimum)")
            for impl, figure in run.figures(bench, threads, "A").items():
                print(f"  {'ours: ' + impl:<34}{columns(figure)}{roof_of(run, bench, threads)}")
            for impl, figure in sorted(peers.items(), key=lambda item: middle(item[1])):
                text = f"  {impl:<34}{columns(figure)}"
                if ours is not None:
                    ratio, worst, best = compare(ours, figure)
                    text += f"   {ratio:8.2f}x  (pairs {worst:.2f} .. {best:.2f})"
                print(text)


def judge(run, threads_list, installed):
    """Prints a line a gate; returns the exit code."""
    code = 0
    print("\ngates: best mode of the peer / ours")
    for name, bench, threads, wanted, gate in GATES:
        plural = "s" if threads > 1 else " "
        head = f"  {name:<3} {bench:<11} {threads} thread{plural} >= {gate:>4g}x "
        head += f"{' or '.join(wanted):<18}"
        if threads not in threads_list:
            print(f"{head} SKIPPED: {threads} threads were not asked for")
            continue
        if bench not in run.benches:
            print(f"{head} SKIPPED: not asked for")
            continue
        if bench == "loader" and not run.data:
            print(f"{head} SKIPPED: no --data")
            continue
        if not any(w in installed for w in wanted):
            print(f"{head} SKIPPED: {' and '.join(wanted)} not installed")
            continue
        _, ours = best_of(run.figures(bench, threads, "A"))
        peers = {i: f for i, f in run.figures(bench, threads, "B").items() if peer_of(i) in wanted}
        missing = [w for w in wanted if w in installed and w not in map(peer_of, peers)]
        if ours is None or missing:
            print(
                f"{head} NO FIGURE: nothing from "
                f"{'our tool' if ours is None else ', '.join(missing)}"
            )
            code = code or 7
            continue
        impl, figure = best_of(peers)
        ratio, worst, _ = compare(ours, figure)
        passed = ratio >= gate and worst > 1
        verdict = "passed" if passed else "BELOW"
        print(f"{head} {ratio:8.2f}x {impl:<12} worst pair {worst:.2f}x  {verdict}")
        if not passed:
            code = 1
    _, ours = best_of(run.figures("tape_add", 1, "A"))
    if ours is not None:
        ns = middle(ours) * 1e3
        print(
            f"  G5a for information: {ns:.1f} ns an operator, wanted at most {TAPE_ADD_NS}"
            f" on the machine of the goal: {'yes' if ns <= TAPE_ADD_NS else 'no'}"
        )
    return code


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("tool", nargs="?", help="path of wt")
    what.add_argument(
        "--peers-only", action="store_true", help="only time the peers; judges nothing"
    )
    parser.add_argument("--threads", default="1,2", help="comma-separated, default 1,2")
    parser.add_argument("--window-s", type=float, default=0.1, help="seconds a window of a peer")
    parser.add_argument("--venv", type=pathlib.Path, default=HERE / ".venv")
    parser.add_argument(
        "--bench", choices=BENCHES, action="append", help="this row, and those of further --bench"
    )
    parser.add_argument("--data", type=pathlib.Path, help="Fashion-MNIST's IDX files, for loader")
    parser.add_argument("--budget-s", type=float, default=1500, help="seconds for the whole run")
    parser.add_argument("--out", type=pathlib.Path, help="also append the JSON lines to this file")
    args = parser.parse_args(argv)
    try:
        threads_list = [int(t) for t in args.threads.split(",")]
    except ValueError:
        parser.error(f"--threads takes numbers such as 1,2, not '{args.threads}'")

    peers = find_peers(args.venv)
    if not peers:
        print("SKIPPED: no peer installed (bench/peers/setup.sh installs them)")
        return 0
    if args.tool and not os.access(args.tool, os.X_OK):
        print(f"gate.py: {args.tool} is not a program", file=sys.stderr)
        return 2

    run, started = Run(args.budget_s, args.data, args.bench or list(BENCHES)), time.monotonic()
    installed = {peer_of(name) for name, _ in peers}
    load = os.getloadavg()[0]
    print(f"machine: {run.env['PEERS_MACHINE']}; commit {run.env['PEERS_COMMIT']}")
    note = "" if load < 0.3 else " (0.3 or more: others are running, figures are provisional)"
    print(f"load average {load:.2f}{note}")
    for threads in threads_list:
        usable = len(os.sched_getaffinity(0))
        if threads > usable:
            print(
                f"gate.py: {threads} threads asked for, {usable} cores to run on", file=sys.stderr
            )
            return 2
        cores = idle_cores(threads)

        # Compiling belongs to no window and to no pair, so its cache is filled first.
        compiling = [peer for peer in peers if peer[0] == "torch compile"]
        run.peers(compiling, threads, cores, 0.001, turn=None)
        run.tool(args.tool, threads, cores, turn=0)
        run.peers(peers, threads, cores, args.window_s, turn=0)
        run.peers(peers, threads, cores, args.window_s, turn=1)
        run.tool(args.tool, threads, cores, turn=1)

    if args.out:
        with args.out.open("a") as out:
            for row in run.rows:
                out.write(json.dumps(row) + "\n")
    versions = {k: v for row in run.rows for k, v in (row.get("versions") or {}).items()}
    print("\nversions: " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())))
    tables(run, threads_list)
    print(f"\n{time.monotonic() - started:.0f} s in all, load average now {os.getloadavg()[0]:.2f}")
    wrong = same_work(run.rows)
    for line in wrong:
        print(f"VOID: not the same work: {line}")
    if args.peers_only:
        return 1 if wrong else 7 if run.failures else 0
    code = judge(run, threads_list, installed)
    return 1 if wrong else code


if __name__ == "__main__":
    sys.exit(main())
