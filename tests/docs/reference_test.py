"""docs/reference and docs/digest.md are what the comments of the public headers say, and none is missing.

tools/generators/reference.py --check says so of this tree. Its own rules are tried on a small tree: what
counts as a comment, what does not need one, and that a comment taken away, a declaration without one and
a page that was edited are each found. And the digest has every name that a crude search of the headers
finds. Exit code 77: libclang for Python is not there.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "autograd", "autograd/ops", "kernels", "nn", "optim", "data", "dist")
COPIED = ("core/macros.h", "core/types.h", "nn/bleu.h")
LEAST_NAMES = 1500
# What has no comment and needs one is called bare..., and nothing else is.
RULES = """// Declarations with and without comments.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::nn {

namespace detail {
struct Hidden {
  // From a base that is not shown.
  int inherited() const;
};
}  // namespace detail

// Says all of it.
enum class Mode : u8 { first, second };

enum class Told {
  one,  // the first
  two,  // the second
};

enum class BareMode { one, two };

struct BareOptions {
  i64 behind = 1;  // says so, and goes on on
                   // another line
  i64 bare_field = 2;
  // Those of width and height.
  i64 width = 0;
  i64 height = 0, bare_depth = 0;

  i64 bare_apart = 0;
};

// A class. What it does comes second.
class WT_API Thing : public detail::Hidden {
 public:
  Thing();
  Thing(const Thing& o);
  Thing(Thing&&) noexcept = default;
  explicit Thing(i64 size);  // of so many
  virtual ~Thing();
  Thing& operator=(const Thing& o);
  // One comment for both, and
  // the second line of it.
  [[nodiscard]] i64 twice(i64 a = 1) const { return 2 * a; }
  [[nodiscard]] double twice(double a) const;

  i64 bare(i64 a);
  double bare(double a);
  // Reads.
  virtual i64 value() const = 0;
  friend bool operator==(const Thing&, const Thing&) = default;

 protected:
  virtual void bare_virtual() = 0;
  void helper();
  i64 kept_ = 0;

 private:
  i64 mine_ = 0;
};

// Overrides.
struct Other final : Thing {
  i64 value() const override;
  i64 bare_new() const;
  // --- internal ---
  i64 plumbing() const;
};

// Has a condition.
template <class T>
requires requires(const T& t) { t.size(); }
WT_API auto sized(const T& t) -> decltype(t.size());

// --- for the library ---
WT_API void not_for_users();
// --- for users ---
WT_API void bare_function(int x);

}  // namespace wt::nn
"""
SIGNATURES = (
    "- `enum class Mode : u8 { first, second }`: Says all of it.",
    "  - `i64 behind = 1`: says so, and goes on on another line",
    "- `class Thing : public detail::Hidden`: A class.",
    "  - `i64 twice(i64 a = 1) const`: One comment for both, and the second line of it.",
    "  - `double twice(double a) const`: One comment for both, and the second line of it.",
    "  - `virtual i64 value() const = 0`: Reads.",
    "  - `int inherited() const`: From a base that is not shown.",
    "  - `i64 value() const`: As of nn::Thing.",
    "- `template <class T> requires requires(const T& t) { t.size(); } auto sized(const T& t) -> decltype(t.size())`:"
    " Has a condition.",
)
UNWANTED = ("WT_", "kept_", "mine_", "plumbing", "not_for_users", "operator", "nodiscard", "helper", "~Thing")
bad = []


def generator(*arguments):
    command = [sys.executable, ROOT / "tools/generators/reference.py", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    return done.returncode, done.stdout


def small_tree(folder, *, rules=""):
    for path in COPIED:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    if rules:
        (folder / "nn/rules.h").write_text(rules)
    return folder


def check_rules(folder):
    """The names that are told of are those that are called bare."""
    small_tree(folder, rules=RULES)
    code, said = generator("--tree", folder, "--missing")
    told = re.findall(r"^nn/rules\.h:(\d+): (.*) has no comment$", said, re.M)
    names = re.findall(r"\bbare\w*|\bBare\w+", RULES)
    found = {n for _, text in told for n in re.findall(r"\bbare\w*|\bBare\w+(?!::|\w)", text)}
    wanted = set(names)
    if code != 1 or found != wanted or any("bare" not in text.lower() for _, text in told):
        bad.append(f"comments missing in the rules' header: {sorted(found ^ wanted)} differ; {said}")
    lines = RULES.split("\n")
    bad.extend(f"not at line {n}: {text}" for n, text in told
               if text.split("::")[-1].split(" and ")[-1] not in lines[int(n) - 1])
    if len(told) != len(set(told)) or len(told) != len(wanted):
        bad.append(f"{len(told)} are told of, not {len(wanted)}: {said}")
    generator("--tree", folder)
    digest = (folder / "docs/digest.md").read_text().split("## nn/rules.h")[1]
    bad.extend(f"the digest has no line: {s}" for s in SIGNATURES if s + "\n" not in digest)
    bad.extend(f"the digest has {word}" for word in UNWANTED if word in digest)


def check_changes(folder):
    """Each change of a tree whose pages are as they should be is found."""
    header, page, digest = "nn/bleu.h", "docs/reference/nn.md", "docs/digest.md"
    generator("--tree", small_tree(folder))
    code, said = generator("--tree", folder, "--check")
    if code != 0:
        bad.append(f"pages that were just written are not taken: {said}")

    def found(what, path, pattern, replacement, says):
        text = (folder / path).read_text()
        changed = re.sub(pattern, replacement, text, count=1, flags=re.M)
        (folder / path).write_text(changed)
        code, said = generator("--tree", folder, "--check")
        (folder / path).write_text(text)
        if changed == text or code != 1 or not re.search(says, said):
            bad.append(f"{what}: exit code {code}: {said}")

    stale = "is not what the headers say: run tools/generators/reference.py"
    found("a comment taken away", header, r"(?:^//.*\n)+(?=WT_API std::vector<std::string> tokenize_13a)", "",
          rf"{header}:\d+: tokenize_13a has no comment")
    found("a function without a comment", header, r"^}  // namespace wt::metrics", r"WT_API void added(int x);\n\n\g<0>",
          rf"{header}:\d+: added has no comment")
    found("a comment that has changed", header, r"Counts of a corpus", "Numbers of a corpus", f"{page} {stale}")
    found("an edited page", page, r"Counts of a corpus", "Numbers of a corpus", f"{page} {stale}")
    found("an edited digest", digest, r"Counts of a corpus", "Numbers of a corpus", f"{digest} {stale}")


# --- the digest against a crude search ---


def crude_names(text):
    """Names of classes and of functions with WT_API that stand at the left margin, not in detail."""
    text = re.sub(r"^// --- (?:internal|for the ).*?(?=^// --- |^}  // namespace wt)", "", text, flags=re.M | re.S)
    text = re.sub(r"^ *#define(?:.*\\\n)*.*", "", text, flags=re.M)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*', "", text)
    kept, depth, hidden = [], 0, None
    for line in text.split("\n"):
        if hidden is None and re.match(r"namespace (\w+::)*(detail|internal)\b.*{|namespace {", line):
            hidden = depth
        if hidden is None:
            kept.append(line)
        depth += line.count("{") - line.count("}")
        if hidden is not None and depth <= hidden:
            hidden = None
    text = "\n".join(kept)
    classes = re.findall(r"^(?:class|struct)(?: WT_\w+| \[\[.*?\]\])* (\w+)(?: final)?(?: :[^;{]*)?\s*{", text, re.M)
    functions = re.findall(r"^(?:\[\[\w+\]\] |WT_COLD )*WT_API [\w:<>,&* ]*?(\w+)\(", text, re.M)
    return classes + functions


def check_digest():
    digest = (ROOT / "docs/digest.md").read_text()
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", digest, re.M | re.S))
    count = 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.h")):
            name, text = str(path.relative_to(ROOT)), path.read_text()
            if re.search(r"Internal[^A-Za-z]", text.split("#pragma once")[0]):
                continue
            section = sections.get(name, "")
            found = crude_names(text)
            count += len(found)
            bad.extend(f"docs/digest.md has no {n} under {name}" for n in found if not re.search(rf"\b{n}\b", section))
    if count < LEAST_NAMES:
        bad.append(f"the crude search finds {count} names, at least {LEAST_NAMES}")
    return count


def main():
    code, said = generator("--check")
    if code == 77:
        print(said, end="")
        return 77
    if code:
        bad.append(said.rstrip())
    names = check_digest() if (ROOT / "docs/digest.md").exists() else 0
    with tempfile.TemporaryDirectory() as here:
        check_rules(Path(here, "rules"))
        check_changes(Path(here, "changes"))
    print("\n".join(bad) or f"{names} names found; {said.rstrip()}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
