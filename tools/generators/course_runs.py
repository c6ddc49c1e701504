#!/usr/bin/env python3
"""Runs of the wt command that the course shows: nothing in them is a time, so they are the same on every machine.

    course_runs.py PATH_OF_WT           writes docs/course/runs
    course_runs.py --check PATH_OF_WT   says which are not what the command says now; exit code 1 if any, 77
                                        where wt has no wt_race beside it, which counts

Kept is what the pictures are of: which node keeps how many bytes, how many sectors a kernel asks for.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def said(wt, *words):
    return subprocess.run([str(wt), *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def kept(rows, keys):
    return [{key: row[key] for key in keys} for row in rows]


def tape(wt):
    command = ("tape", "fashion", "--device", "cpu", "--batch", "8", "--json")
    run = json.loads(said(wt, *command))
    return {
        "command": "wt " + " ".join(command),
        "saved_bytes": run["saved_bytes"],
        "nodes": kept(run["nodes"], ("module", "op", "saved_bytes")),
    }


def counters(wt):
    command = ("bench", "counters", "--only", "softmax_forward", "--shape", "1", "--json")
    rows = [json.loads(line) for line in said(wt, *command).splitlines() if line.startswith("{")]
    return {
        "command": "wt " + " ".join(command),
        "kernels": kept(rows, ("impl", "shape", "contract_bytes", "load_requests", "load_units", "asked_bytes")),
    }


def text(run):
    """A row a line."""
    rows = next(value for value in run.values() if isinstance(value, list))
    name = next(key for key, value in run.items() if value is rows)
    head = {key: value for key, value in run.items() if key != name}
    return json.dumps(head)[:-1] + f', "{name}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("wt", type=Path, metavar="PATH_OF_WT")
    args = parser.parse_args()
    runs, left_out, bad = {"tape_fashion": tape}, "", 0
    if args.wt.with_name("wt_race").exists():
        runs["counters_softmax"] = counters
    else:
        left_out = "SKIPPED: no wt_race: this build has no kernels that count"
    for name, make in runs.items():
        path, now = ROOT / "docs/course/runs" / (name + ".json"), text(make(args.wt))
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(now)
        elif not path.is_file() or path.read_text() != now:
            bad += 1
            print(f"docs/course/runs/{name}.json is stale: it would be\n{now}")
    print(left_out or f"{len(runs)} runs {'are what wt says' if args.check else 'written'}")
    return 1 if bad else 77 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
