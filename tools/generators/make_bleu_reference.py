#!/usr/bin/env python3
"""Writes tests/reference/data/bleu.txt: what sacrebleu makes of some corpora, for tests to compare with.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install sacrebleu
    /tmp/venv/bin/python tools/generators/make_bleu_reference.py

A case is

    case NAME
    smoothing exp | none
    line "..."            a JSON string: a translation
    reference "..."       one or more behind each line
    tokens "..."          behind those: the line's words with one space between
    score S P1 P2 P3 P4 BP LENGTH REFERENCE_LENGTH      (%.17g)
    text ...              sacrebleu's own line, with the version VERSION
    end
"""

import json
import pathlib

import usage

usage.answer(__doc__)

import sacrebleu  # noqa: E402
from sacrebleu.metrics import BLEU  # noqa: E402
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a  # noqa: E402

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "data" / "bleu.txt"

DOG = ["Two dogs run over the green field.", "A man in a red shirt holds a ball, and smiles.", "Children play."]
DOG_OUT = ["Two dogs run across a green field.", "A man in a red shirt is holding a ball and smiles.", "Children play."]
# A name, translations, sets of references, the smoothing.
CASES = [
    ("plain", DOG_OUT, [DOG], "exp"),
    ("equal", DOG, [DOG], "exp"),
    ("several_references", DOG_OUT, [DOG, ["Two dogs cross a field.", "A smiling man holds a ball.", "Kids play."]], "exp"),
    ("nothing_in_common", ["a b c d", "e f"], [["g h i j", "k l"]], "exp"),
    ("empty_line", ["", "Two dogs run over the field."], [["Nobody is here.", "Two dogs run over the field."]], "exp"),
    ("all_empty", ["", ""], [["Nobody is here.", "Two dogs."]], "exp"),
    ("empty_reference", ["Two dogs run fast today.", "one"], [["Two dogs run fast today.", ""]], "exp"),
    ("one_word", ["dogs"], [["dogs"]], "exp"),
    ("one_word_lines", ["dogs", "cats", "run", "fast"], [["dogs", "cats", "ran", "fast"]], "exp"),
    ("two_words", ["two dogs"], [["two dogs run over it"]], "exp"),
    ("no_fours", ["the cat sat", "a dog ran off now"], [["the cat sat", "a dog ran out now"]], "exp"),
    ("no_fours_unsmoothed", ["the cat sat", "a dog ran off now"], [["the cat sat", "a dog ran out now"]], "none"),
    ("clipped", ["the the the the the the the"], [["the cat is on the mat", ]], "exp"),
    ("too_long", ["the cat sat on the mat with a hat and a bat today"], [["the cat sat on the mat"]], "exp"),
    ("too_short", ["the cat sat on the"], [["the cat sat on the mat with a hat and a bat today"]], "exp"),
    ("numbers", ["It costs 1,234.56 euros, or 3.5% of 10-12 (not .5).", "1.-2. 9-to-5"], [["It costs 1,234.56 euro, or 3.5 % of 10-12 (not 0.5).", "1. - 2. 9-to-5"]], "exp"),
    ("punctuation", ["Well... don't! \"Stop\", he said: {a}[b]^_`~|@#$%^*+=/\\<>?;", "x,y.z ,.., a--b -5 5-"], [["Well... do not! \"Stop\", he said; {a}[b]", "x,y.z ,.., a--b -5 5-"]], "exp"),
    ("entities", ["Tom &amp; Jerry &quot;run&quot; &lt;fast&gt; &amp;lt;", "a <skipped> b c d"], [["Tom & Jerry \"run\" <fast> <", "a b c d e"]], "exp"),
    ("unicode", ["Ein Mädchen läuft über die Straße.", "„Guten Tag“, sagte er – leise…", "犬が走る。 são José's café"], [["Ein Mädchen rennt über die Straße.", "„Guten Tag“, sagt er – leise…", "犬が走る。 São José's café"]], "exp"),
    ("spaces", ["  two\u00a0dogs\u2003run\u3000far\u2028 away\t ", "a\u200bb c\u0085d e\x1cf"], [["two dogs run far away", "a\u200bb c d e f"]], "exp"),
    ("line_breaks", ["a hy-\nphen and a\nbreak here"], [["a hyphen and a break here"]], "exp"),
    ("emoji", ["dogs 🐕 run 🏃‍♀️. fast", "é.é,é 5.é"], [["dogs 🐕 run 🏃‍♀️ . fast", "é . é , é 5 . é"]], "exp"),
]


def main():
    out = [f"# made by tools/generators/make_bleu_reference.py with sacrebleu {sacrebleu.__version__}"]
    words = Tokenizer13a()
    for name, lines, references, smoothing in CASES:
        bleu = BLEU(smooth_method=smoothing)
        s = bleu.corpus_score(lines, references)
        out += [f"case {name}", f"smoothing {smoothing}"]
        for i, line in enumerate(lines):
            out.append("line " + json.dumps(line))
            out += ["reference " + json.dumps(r[i]) for r in references]
            out.append("tokens " + json.dumps(words(line.rstrip())))
        numbers = [s.score, *s.precisions, s.bp]
        out.append("score " + " ".join(f"{x:.17g}" for x in numbers) + f" {s.sys_len} {s.ref_len}")
        signature = str(bleu.get_signature()).replace(sacrebleu.__version__, "VERSION")
        out += ["text " + s.format(signature=signature), "end"]
    FILE.write_text("\n".join(out) + "\n")


main()
