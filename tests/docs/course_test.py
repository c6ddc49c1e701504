#!/usr/bin/env python3
"""Faults planted in a copy of the course are found, each by the words that name it: a missing translation, a
changed block of code, a heading too few, another figure, a stale figure or listing, a dead link, a missing anchor. Exit code
77 where there is no Sphinx, with which links are found, or no nvcc."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDED = (
    "docs/course",
    "docs/distributed_model.md",
    "tools/course.sh",
    "tools/generators/course_figures.py",
    "tests/docs/course.py",
    "tests/simt",
    "bench/results",
    "bench/sass/sm_90a.txt",
)
bad = 0
skipped = False


def said(*command):
    done = subprocess.run(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "WT_BROWSER": "", "HOME": "/nonexistent"},
    )
    return done.returncode, done.stdout


def edit(path, old, new):
    text = path.read_text()
    assert old in text, f"{path}: {old}"
    path.write_text(text.replace(old, new, 1))


def expect(name, code, words, command):
    global bad, skipped
    rc, text = said(sys.executable, "-B", *command)
    if rc == 77:
        skipped = True
        print(f"{name}: {text.strip().splitlines()[-1]}")
    elif rc != code or (words and words not in text):
        bad += 1
        print(f"FAILED: {name}: exit code {rc}, not {code}, or no '{words}' in: {text}")


def expect_said(name, holds, text):
    global bad
    if not holds:
        bad += 1
        print(f"FAILED: {name}: {text}")


def main():
    with tempfile.TemporaryDirectory(prefix="wt-course-faults-") as here:
        tree = Path(here, "tree")
        course, zh = tree / "docs/course", tree / "docs/course/zh"
        check = (tree / "tests/docs/course.py", "--root", tree)
        figures = (tree / "tools/generators/course_figures.py", "--root", tree, "--check")

        def fresh():
            shutil.rmtree(tree, ignore_errors=True)
            for name in NEEDED:
                to = tree / name
                to.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, to)
            for page in ROOT.glob("labs/[0-9]*/page.md"):
                to = tree / page.relative_to(ROOT)
                to.parent.mkdir(parents=True)
                shutil.copy(page, to)

        fresh()
        expect("nothing planted", 0, "", (*check, "--sources"))
        expect("nothing planted, figures", 0, "are what their files say", figures)

        (zh / "2_loop_to_kernel.md").unlink()
        expect("a missing translation", 1, "2_loop_to_kernel has no Chinese page", (*check, "--sources"))
        fresh()
        (zh / "labs/04_reduction.md").unlink()
        expect("a lab's missing translation", 1, "labs/04_reduction has no Chinese page", (*check, "--sources"))
        fresh()
        edit(zh / "2_loop_to_kernel.md", "const i64 n = 1000;", "const i64 n = 1001;")
        expect("a changed block of code", 1, "2_loop_to_kernel.md: blocks of code differ", (*check, "--sources"))
        fresh()
        edit(zh / "1_training_step.md", "\n## ", "\n")
        expect("a heading too few", 1, "1_training_step.md: headings differ", (*check, "--sources"))
        fresh()
        edit(zh / "4_many_gpus.md", "scaling.svg", "overlap.svg")
        expect("another figure", 1, "4_many_gpus.md: figures differ", (*check, "--sources"))
        fresh()
        for page in (course / "3_ptx_and_machine_code.md", zh / "3_ptx_and_machine_code.md"):
            edit(page, "fma.rn.f32", "mad.rn.f32")
        expect(
            "an excerpt that is not its file's",
            1,
            "is of docs/course/code/axpy.ptx, which does not have",
            (*check, "--sources"),
        )
        fresh()
        (zh / "labs/99_more.md").write_text("# 99\n")
        expect("a translation of nothing", 1, "99_more.md is the translation of no page", (*check, "--sources"))

        fresh()
        table = tree / "bench/sass/sm_90a.txt"
        table.write_text(re.sub(r"(?m)^(add<f32> .*) 32\.7 ", r"\1 31.7 ", table.read_text()))
        expect("a stale figure", 1, "packs.svg is stale", figures)
        fresh()
        edit(course / "figures/mix.svg", "49 instructions", "48 instructions")
        expect("a figure that was edited", 1, "mix.svg is stale", figures)
        fresh()
        (course / "figures/mine.svg").write_text("<svg/>")
        expect("a figure that nobody draws", 1, "mine.svg is no figure of the generator", figures)

        fresh()
        edit(course / "code/axpy.ptx", "fma.rn.f32", "mad.rn.f32")
        listings = ("tools/generators/course_listings.py", "--root", tree, "--check")
        expect(
            "a listing that was edited",
            1,
            "axpy.ptx is not what nvcc makes of axpy.cu",
            (ROOT / listings[0], *listings[1:]),
        )

        nothing = Path(here, "nothing")
        for module in ("sphinx", "myst_parser"):
            (nothing / module).mkdir(parents=True)
            (nothing / module / "__init__.py").write_text("raise ImportError('planted')\n")
        rc, text = said("env", f"PYTHONPATH={nothing}", "bash", tree / "tools/course.sh")
        expect_said(
            "no Sphinx", rc == 77 and "no python3-myst-parser: tools/setup.sh --course installs it" in text, text
        )
        there = Path(here, "there")
        there.mkdir()
        (there / "mine.txt").write_text("mine\n")
        rc, text = said("bash", tree / "tools/course.sh", "--out", there)
        expect_said("a folder that is no course", rc in (2, 77) and (there / "mine.txt").exists(), text)

        fresh()
        for page in (course / "1_training_step.md", zh / "1_training_step.md"):
            edit(page, "labs/12_loss_scaling", "labs/12_loss_scalers")
        expect("a dead link", 1, "12_loss_scalers", check)
        fresh()
        for page in (course / "3_ptx_and_machine_code.md", zh / "3_ptx_and_machine_code.md"):
            edit(page, "(2_loop_to_kernel.md)", "(2_loop_to_kernel.md#no-such-place)")
        expect("a missing anchor", 1, "no-such-place", check)
    if bad:
        return 1
    print("the faults are found" + (", but for what is left out above" if skipped else ""))
    return 77 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
