"""Builds a faulty test program over a tree that is built already, without writing into it.

The sources are links to the tree's, but for the faulty file. Only the objects that depend on it are
compiled, by the tree's own commands with other paths; the program is linked from them and the
tree's other objects. So it works over any CMake tree made with Ninja, with or without unity
batches and compiler cache.
"""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path


class Tree:
    """What a built tree knows: the objects of wt_tests, their commands and their dependencies."""

    def __init__(self, source, build, program="wt_tests"):
        self.source, self.build = Path(source).resolve(), Path(build).resolve()
        self.program = program
        database = json.loads(self._ninja("-t", "compdb", "-x"))
        self.commands = {e["output"]: e for e in database}
        self.link = self.commands[program]["command"]
        objects = set(re.findall(r"\S+\.o\b", self.link))
        # nvcc's objects stay as they are: nothing here runs them.
        self.objects = {o for o in objects if o in self.commands and "nvcc" not in
                        self.commands[o]["command"].split(" -", 1)[0] and "_cuda.dir/" not in o}
        self.users = self._dependencies()

    def _ninja(self, *args):
        return subprocess.run(["ninja", "-C", str(self.build), *args], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def _dependencies(self):
        """Path from the root of the sources -> the objects that include it."""
        users, here, known = {}, None, {}
        for line in self._ninja("-t", "deps").split("\n"):
            if line and not line.startswith(" "):
                here = line.split(":", 1)[0]
                continue
            path = line.strip()
            if not path or here not in self.objects or path.startswith("/usr/"):
                continue
            if path not in known:
                full = os.path.realpath(self.build / path)
                inside = full.startswith(f"{self.source}/")
                known[path] = os.path.relpath(full, self.source) if inside else ""
            if known[path]:
                users.setdefault(known[path], set()).add(here)
        return users


class Overlay:
    """A folder for one faulty program at a time."""

    def __init__(self, tree, folder, files):
        self.tree, self.folder = tree, Path(folder)
        self.source = self.folder / "source"
        for file in files:
            link = self.source / file
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(tree.source / file)
        include = self.folder / "include"
        include.mkdir()
        (include / "warptape").symlink_to(self.source)

    def plant(self, file, line, after):
        text = (self.tree.source / file).read_text().split("\n")
        text[line - 1] = after
        target = self.source / file
        target.unlink()
        target.write_text("\n".join(text))

    def remove(self, file):
        (self.source / file).unlink()
        (self.source / file).symlink_to(self.tree.source / file)
        for left in ("objects", "run"):
            shutil.rmtree(self.folder / left, ignore_errors=True)

    def _moved(self, text):
        """Paths of the tree become those of the overlay; the build folder may lie in the sources."""
        build, source = str(self.tree.build), str(self.tree.source)
        text = text.replace(f"{build}/include", "\0I").replace(f"{build}/", "\0B")
        text = text.replace(f"{source}/", f"{self.source}/")
        return text.replace("\0I", f"{self.folder}/include").replace("\0B", f"{build}/")

    def command(self, obj):
        """The command that compiles `obj` here, and where the result lies."""
        entry = self.tree.commands[obj]
        out = self.folder / "objects" / obj.replace("/", "_")
        text = entry["command"]
        # The time log and the dependency file are the tree's own.
        text = re.sub(r"\S*/cmake/timed\.sh \S+ ", "", text)
        text = re.sub(r" -MD -MT \S+ -MF \S+", "", text)
        text = self._moved(text).replace(f" -o {obj}", f" -o {out}")
        unity = re.search(r"(\S*/Unity/(\S+))(?=\s|$)", text)
        if unity and unity[1].startswith(str(self.tree.build)):
            copy = self.folder / "objects" / (obj.replace("/", "_") + "." + unity[2])
            copy.write_text(self._moved(Path(unity[1]).read_text()))
            text = text.replace(unity[1], str(copy))
        return text, out

    def build(self, file, run):
        """Compiles and links. `run` executes a command line. Returns the program, or in words why
        there is none."""
        (self.folder / "objects").mkdir()
        (self.folder / "run").mkdir()
        link, changed = self.tree.link, False
        for obj in sorted(self.tree.users.get(file, ())):
            command, out = self.command(obj)
            if run(command, self.tree.build) != 0:
                return None, "does not compile"
            changed = changed or self._differs(self.tree.build / obj, out)
            link = re.sub(rf"(?<=\s){re.escape(obj)}(?=\s)", str(out), link)
        if not changed:
            return None, "same machine code"
        program = self.folder / "run" / self.tree.program
        link = link.replace(f" -o {self.tree.program} ", f" -o {program} ")
        if run(link, self.tree.build) != 0:
            return None, "does not link"
        return program, ""

    def _differs(self, old, new):
        """Whether the code differs, debug information aside: what compiles to the same is no fault."""
        stripped = []
        for file in (old, new):
            out = self.folder / "objects" / f"stripped{len(stripped)}"
            subprocess.run(["objcopy", "--strip-debug", str(file), str(out)], check=True)
            stripped.append(out.read_bytes())
        return stripped[0] != stripped[1]
