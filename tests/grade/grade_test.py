#!/usr/bin/env python3
"""grade_test.py WT FILE.cu OP: every variant of a file of this folder gets its verdict.

Those that a line "REJECT variant kind" names must not pass, for that reason; all others have to.
A line that ends with "BUG variant" must be named. Variants of kinds that take their time ("hang")
are graded one by one with a short limit. --seed N, --only VARIANT,..., --nvcc yes: on the emulated
device, too, which every variant that passes has to come to.
"""
import json
import re
import subprocess
import sys
from pathlib import Path


def options(argv):
    words, found = [], {}
    while argv:
        word = argv.pop(0)
        if word.startswith("--"):
            found[word[2:]] = argv.pop(0)
        else:
            words.append(word)
    return words, found


def verdicts(wt, file, op, seed, more):
    command = [wt, "grade", str(file), "--op", op, "--seed", seed, "--json", *more]
    run = subprocess.run(command, capture_output=True, text=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    if run.stderr:
        print(run.stderr, end="")
    return run.returncode, lines


def main():
    words, given = options(sys.argv[1:])
    wt, file, op = words
    text = Path(file).read_text()
    wanted = dict(re.findall(r"^// REJECT (\w+) (\w+)$", text, re.M))
    slow = {v for v, kind in wanted.items() if kind == "hang"}
    lines = {}
    for number, line in enumerate(text.split("\n"), 1):
        if bug := re.search(r"// BUG (\w+)$", line):
            lines[bug[1]] = number
    patient = ["--timeout", "200", *([] if "nvcc" in given else ["--no-nvcc"])]
    short = ["--timeout", "2", *patient[2:]]
    only = [w for n in given.get("only", "").split(",") if n for w in ("--variant", n)]
    names = re.findall(r'\.name = "(\w+)"', text) + re.findall(r"\bWT_ROW\((?!kernel\))(\w+)\)", text)
    bad, seen = 0, set()
    # Right kernels have all the time that a busy machine takes from them.
    groups = [(only or [w for n in names if n not in slow for w in ("--variant", n)]) + patient]
    if not only:
        groups += [["--variant", n, *short] for n in sorted(slow)]
    for group in groups:
        code, found = verdicts(wt, file, op, given.get("seed", "1"), group)
        for v in found:
            name, finding = v["variant"], (v["findings"] or [{}])[0]
            seen.add(name)
            kind, said = finding.get("kind"), finding.get("sentence")
            right = v["passed"] != (name in wanted) and kind == wanted.get(name)
            if name in lines and finding.get("line") != lines[name] and f":{lines[name]} " not in str(said):
                right = False  # races have two lines
            if v["passed"] and "nvcc" in given and not v.get("device", {}).get("kernels"):
                right = False
            if right and not v["passed"] and not (finding["hint"] and finding["line"]):
                right = False
            if not right:
                bad += 1
                print(f"FAILED {name}: wanted {wanted.get(name, 'a pass')} at line {lines.get(name)}, got "
                      f"{kind} at line {finding.get('line')}: {said} (hint: {finding.get('hint')}), notes {v['notes']}")
            elif "show" in given:
                print(f"{name}: {kind} line {finding.get('line')}: {said} | {v.get('score', {}).get('points')}")
        passed = all(v["passed"] for v in found)
        if code != (0 if passed else 11) or not found:
            bad += 1
            print(f"FAILED: exit code {code} with {len(found)} verdicts")
    if not only and seen != set(names):
        bad += 1
        print(f"FAILED: no verdict of {sorted(set(names) - seen)}")
    if not only and (not names or set(wanted) - set(names)):
        bad += 1
        print(f"FAILED: {file} says nothing of {sorted(set(wanted) - set(names))}")
    print(f"{len(seen)} variants graded, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
