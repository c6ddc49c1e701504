#!/usr/bin/env python3
"""lab_test.py WT labs/NN_NAME: a lab is what its lab.json says, and its solutions get what they should.

The solution passes, with the challenge; the stub fails, with a hint; each wrong solution fails, and the
hint is the one that its first line names. A wrong solution is a whole file, or NAME.diff: what it
changes of the right one (apply). --seed N, --only FILE; --nvcc yes: it is there, and the solution of a
kernel lab has to run on the emulated device.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEYS = {"number", "name", "title", "minutes", "kind", "file", "also", "misconception", "pass", "graded",
        "challenge", "hints", "findings", "real"}
bad = 0


def fail(text):
    global bad
    bad += 1
    print(f"FAILED: {text}")


def check_text(folder, lab):
    """lab.json against the folder."""
    if folder.name != f"{lab['number']:02d}_{lab['name']}":
        fail(f"{folder.name} is not the folder of {lab['number']} {lab['name']}")
    if unknown := set(lab) - KEYS:
        fail(f"lab.json: keys that mean nothing: {sorted(unknown)}")
    for key in ("title", "minutes", "kind", "file", "misconception", "challenge", "hints"):
        if not lab.get(key):
            fail(f"lab.json has no {key}")
    end = Path(lab["file"]).suffix
    needed = ["page.md", "stub" + end, "solution" + end, *lab.get("also", [])]
    if lab["kind"] == "host":
        needed.append("check.cpp")
    for name in needed:
        if not (folder / name).is_file():
            fail(f"{folder.name}/{name} is missing")
    hints = lab["hints"]
    for name, levels in hints.items():
        if len(levels) != 3 or not all(levels):
            fail(f"hint {name} has {len(levels)} levels, not 3")
    said = set(lab.get("findings", {}).values())
    if lab["kind"] == "host":
        text = (folder / "check.cpp").read_text()
        cases = re.findall(r'WT_LAB_CASE\(\s*"(?:[^"\\]|\\.)*",\s*(\d+)\)', text)
        points = sum(map(int, cases))
        said |= set(re.findall(r'"(\w+)"\s*\)\s*;', text)) & set(hints)
    else:
        points = sum(row["points"] for row in lab["graded"])
    if points != 100:
        fail(f"the points add up to {points}, not 100")
    if missing := said - set(hints):
        fail(f"hints that lab.json has not: {sorted(missing)}")
    page = (folder / "page.md").read_text()
    for what in (f"# Lab {lab['number']}", lab["misconception"][:-1].split(":")[0]):
        if what.lower() not in page.lower():
            fail(f"page.md does not say: {what}")


def apply(diff, text):
    """The solution, changed by hunks behind lines of "@@": what one has on lines of " " and "-" stands
    in it once, and what it has on lines of " " and "+" takes its place."""
    for hunk in re.split(r"^@@\n", diff, flags=re.M)[1:]:
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in " " + sign) for sign in "-+")
        if ("\n" + text).count("\n" + old) != 1:
            raise ValueError(f"these lines do not stand in the solution once:\n{old}")
        text = ("\n" + text).replace("\n" + old, "\n" + new, 1)[1:]
    return text


def as_file(file, solution, also, into):
    """A wrong solution as a whole file, with what it includes beside it."""
    if file.suffix != ".diff":
        return file
    for name in also:
        shutil.copy(solution.parent / name, into)
    whole = into / (file.stem + solution.suffix)
    whole.write_text(apply(file.read_text(), solution.read_text()))
    return whole


def check_file(wt, folder, lab, file, seed):
    alone = [] if file.stem == "solution" else ["--no-nvcc"]
    run = subprocess.run([wt, "lab", "check", str(file), "--lab", str(lab["number"]), "--seed", seed, "--json",
                          "--timeout", "100", *alone], capture_output=True, text=True)
    if run.stderr:
        print(run.stderr, end="")
    found = json.loads(run.stdout) if run.stdout else {"passed": None, "cases": [], "hint": None, "points": 0}
    if run.returncode != (0 if found["passed"] else 11):
        fail(f"{file.name}: exit code {run.returncode}")
    return found


def reasons(found):
    return "; ".join(f"{c['name']}: {c['reason']} [{c['hint_id']}]" for c in found["cases"] if not c["passed"])


def main():
    words = sys.argv[1:3]
    given = {a[2:]: b for a, b in zip(sys.argv, sys.argv[1:]) if a.startswith("--")}
    wt, folder = words[0], Path(words[1]).resolve()
    lab = json.loads((folder / "lab.json").read_text())
    check_text(folder, lab)
    end = Path(lab["file"]).suffix
    seed = given.get("seed", "1")
    solution = folder / ("solution" + end)
    files = [solution, folder / ("stub" + end), *sorted((folder / "wrong").iterdir())]
    if len(files) < 5:
        fail(f"{len(files) - 2} wrong solutions, at least 3")
    for file in files:
        if "only" in given and given["only"] != file.name:
            continue
        with tempfile.TemporaryDirectory() as temp:
            try:
                found = check_file(wt, folder, lab, as_file(file, solution, lab.get("also", []), Path(temp)), seed)
            except ValueError as error:
                fail(f"{file.name}: {error}")
                continue
        for case in found["cases"]:
            if case["reason"].startswith("it scores ") and "memory: asks for " not in case["reason"]:
                fail(f"{file.name}: a score without what it is made of: {case['reason']}")
        wanted = re.match(r"// hint: (\w+)\n", file.read_text())
        if file.name.startswith("solution"):
            if not found["passed"] or found["points"] != 100 or not found["challenge_met"]:
                fail(f"{file.name}: {found['points']} points, challenge {found.get('challenge_met')}: {reasons(found)}")
            emulated = [c["name"] for c in found["cases"] if "emulated device" in c["reason"]]
            if lab["kind"] == "kernel" and "nvcc" in given and not emulated:
                fail(f"{file.name}: nothing ran on the emulated device")
        elif found["passed"] is not False:
            fail(f"{file.name} passes, with {found['points']} points")
        elif not wanted and file.parent.name == "wrong":
            fail(f"{file.name}: its first line names no hint")
        elif wanted and found["hint"] != wanted[1]:
            fail(f"{file.name}: the hint is {found['hint']}, not {wanted[1]}: {reasons(found)}")
        elif not found["hint"] or found["hint"] not in lab["hints"]:
            fail(f"{file.name}: no hint of lab.json, but {found['hint']}: {reasons(found)}")
        if "show" in given:
            print(f"{file.name}: {found['points']} points, hint {found['hint']}: {reasons(found)}")
    print(f"{folder.name}: {len(files)} files checked, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
