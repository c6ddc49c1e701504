#!/usr/bin/env python3
"""What tools/gpu_gate.sh has measured, made into what is committed.

    tools/gpu_results.py RESULTS              into bench/results/<device>/, docs/gpu_results.md, README.md
    tools/gpu_results.py --write              docs/gpu_results.md and README.md alone, from what is kept
    tools/gpu_results.py --check              exit code 1 where these differ from what is kept

A second run on a device replaces what it has measured again. Predictions of `wt bench model` are kept
with a run: --model FILE has what `wt bench model --json --all` said, else a `wt` of a build tree is asked.

Exit code: 2 for what is not to be kept (of an emulated device, a rehearsal, of two devices, of a commit
that is not known), 3 for a folder that is incomplete. Nothing has been written then.
"""

import argparse
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools", "results"))
import prediction  # noqa: E402
import results_page  # noqa: E402
from kept_results import INCOMPLETE, UNFIT, Device, Refused, Run, devices, lines_of, slug, text_of  # noqa: E402

BEGIN = "<!-- gpu: written by tools/gpu_results.py -->\n"
END = "<!-- end of gpu -->"


def model_of(given, run, root):
    """What the model says of the run's GPU; [] where it cannot be asked."""
    if not prediction.gpu_of(run.name):
        return []
    if given:
        said = lines_of(given)
        if not said:
            raise Refused(f"{given} has no row of `wt bench model --json --all`", INCOMPLETE)
    else:
        said = ask_model(root)
    table = text_of(os.path.join(root, "bench", "sass", "sm_90a.txt")) or ""
    return prediction.rows_to_keep(said, run.name, table)


def ask_model(root):
    programs = sorted(glob.glob(os.path.join(root, "build", "*", "wt")), key=os.path.getmtime)
    for program in reversed(programs):
        got = subprocess.run([program, "bench", "model", "--json", "--all"], capture_output=True, text=True, check=False)
        if got.returncode == 0:
            return [json.loads(line) for line in got.stdout.splitlines() if line.startswith("{")]
    print("no predictions: no build tree has a wt, and there is no --model FILE", file=sys.stderr)
    return []


def generated(root, kept):
    """path: text of the two pages; None for one that is not to be there."""
    readme = os.path.join(root, "README.md")
    text = text_of(readme) or ""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise Refused(f"{readme} has no place for the paragraph: {BEGIN.strip()} ... {END}", UNFIT)
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return {
        readme: f"{before}{BEGIN}{results_page.paragraph(kept)}\n{END}{after}",
        os.path.join(root, "docs", "gpu_results.md"): results_page.document(kept),
    }


def write(files):
    """All of them, or none: what can fail happens before the first one is replaced."""
    made = []
    try:
        for path, text in files.items():
            if text is None:
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + ".new", "w", encoding="utf-8") as f:
                made.append(path)
                f.write(text)
                f.flush()
                os.fsync(f.fileno())
    except BaseException:
        for path in made:
            os.remove(path + ".new")
        raise
    for path in made:
        os.replace(path + ".new", path)
    for path, text in files.items():
        if text is None and os.path.exists(path):
            os.remove(path)


def keep(folder, given, root):
    run = Run(folder)
    name, kept = slug(run.name), devices(root)
    mine = kept[name] = kept.get(name) or Device(os.path.join(root, "bench", "results", name))
    mine.add(run, model_of(given, run, root))
    write({**mine.files(), **generated(root, dict(sorted(kept.items())))})
    print(f"{run.name}: {len(run.rows)} rows kept in bench/results/{name}; tools/benchmarks.py --write lists them")


def check(root):
    bad = [p for p, text in generated(root, devices(root)).items() if text_of(p) != text]
    for path in bad:
        print(f"{os.path.relpath(path, root)} is not what bench/results gives: tools/gpu_results.py --write")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", metavar="RESULTS", nargs="?", help="the folder that tools/gpu_gate.sh wrote")
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    parser.add_argument("--into", metavar="ROOT", default=ROOT, help="another checkout")
    parser.add_argument("--model", metavar="FILE", help="what `wt bench model --json --all` said")
    o = parser.parse_args()
    try:
        if o.check:
            return check(o.into)
        if o.write:
            write(generated(o.into, devices(o.into)))
        else:
            keep(o.folder, o.model, o.into)
    except Refused as e:
        print(f"not kept: {e}" if o.folder else str(e), file=sys.stderr)
        return e.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
