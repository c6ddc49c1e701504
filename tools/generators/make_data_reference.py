#!/usr/bin/env python3
"""Writes tests/reference/data/*: what NumPy and scikit-learn make, for tests to compare with.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy scikit-learn
    /tmp/venv/bin/python tools/generators/make_data_reference.py

- `npz.txt`: archives of np.savez and np.savez_compressed as hexadecimal text, "name: digits": x is
  int16 0 .. 5 of shape 2x3, y the float64 numbers 0 .. 5 of shape 2x3 in Fortran order, b the bools
  [1, 0].
- `reports.txt`: classification reports. A case is

      case NAME
      true LABEL ...
      pred LABEL ...
      labels LABEL ...         (or nothing behind the word: all that occur)
      names WORD|WORD ...      (or nothing)
      digits N
      zero_division 0 | 1 | nan
      value ROW P R F1 SUPPORT  (any number of lines; %.17g)
      text
      |the report, each line behind a bar
      end
"""

import io
import pathlib
import warnings

import usage

usage.answer(__doc__)

import numpy  # noqa: E402
import sklearn  # noqa: E402
from sklearn.metrics import classification_report  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "data"


def npz():
    x = numpy.arange(6, dtype="<i2").reshape(2, 3)
    y = numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))
    b = numpy.array([True, False])
    lines = [f"# made by tools/generators/make_data_reference.py with NumPy {numpy.__version__}"]
    for name, save in (("stored", numpy.savez), ("deflated", numpy.savez_compressed)):
        out = io.BytesIO()
        save(out, x=x, y=y, b=b)
        lines.append(f"{name}: {out.getvalue().hex()}")
    (FOLDER / "npz.txt").write_text("\n".join(lines) + "\n")


def hashed(n, classes, seed):
    """Labels without a random generator, the same with any version."""
    return [((i * 2654435761 + seed * 40503) >> 7) % classes for i in range(n)]


CASES = {
    "article": dict(true=[0, 1, 0, 0, 1], pred=[1, 1, 0, 1, 1]),
    "three_classes": dict(true=[0, 1, 2, 2, 2], pred=[0, 0, 2, 2, 1]),
    "names": dict(
        true=[0, 1, 2, 2, 2], pred=[0, 0, 2, 2, 1], names=["T-shirt", "a very long name", "bag"]
    ),
    "never_predicted": dict(true=[0, 0, 1, 2, 2, 2], pred=[0, 0, 2, 2, 2, 0]),
    "no_support": dict(true=[0, 0, 1, 1], pred=[0, 3, 1, 3]),
    "zero_one": dict(true=[0, 0, 1, 1], pred=[0, 3, 2, 3], zero_division=1),
    "zero_nan": dict(true=[0, 0, 1, 1], pred=[0, 3, 2, 3], zero_division=numpy.nan),
    "labels_more": dict(true=[0, 1, 1], pred=[0, 1, 0], labels=[0, 1, 2]),
    "labels_more_nan": dict(
        true=[0, 1, 1], pred=[0, 1, 0], labels=[0, 1, 2], zero_division=numpy.nan
    ),
    "labels_fewer": dict(true=[0, 1, 2, 2, 1, 0], pred=[0, 2, 2, 1, 1, 2], labels=[1, 2]),
    "labels_order": dict(true=[0, 1, 2, 2, 1, 0], pred=[0, 2, 2, 1, 1, 2], labels=[2, 0, 1]),
    "labels_none_occur": dict(true=[0, 1], pred=[1, 0], labels=[5, 6]),
    "labels_none_occur_one": dict(true=[0, 1], pred=[1, 0], labels=[5, 6], zero_division=1),
    # No prediction is right: scikit-learn then counts the support in floats, and prints it so.
    "all_wrong": dict(true=[0, 1, 2, 2], pred=[1, 2, 0, 1]),
    "one_class": dict(true=[4, 4, 4], pred=[4, 4, 4]),
    "negative": dict(true=[-1, 1, -1, 1, 7], pred=[-1, -1, 1, 1, 7]),
    "digits_4": dict(true=[0, 1, 2, 2, 2], pred=[0, 0, 2, 2, 1], digits=4),
    "digits_0": dict(true=[0, 1, 2, 2, 2], pred=[0, 0, 2, 2, 1], digits=0),
    "many": dict(true=hashed(211, 10, 1), pred=hashed(211, 10, 5)),
    "large_support": dict(true=[0] * 700 + [1] * 300, pred=[0] * 650 + [1] * 350, digits=3),
}


def reports():
    lines = [f"# made by tools/generators/make_data_reference.py with scikit-learn {sklearn.__version__}"]
    for name, case in CASES.items():
        zero = case.get("zero_division", 0)
        options = dict(
            labels=case.get("labels"),
            target_names=case.get("names"),
            digits=case.get("digits", 2),
            zero_division=zero,
        )
        lines += [f"case {name}"]
        lines += ["true " + " ".join(map(str, case["true"]))]
        lines += ["pred " + " ".join(map(str, case["pred"]))]
        lines += ["labels " + " ".join(map(str, options["labels"] or []))]
        lines += ["names " + "|".join(options["target_names"] or [])]
        lines += [f"digits {options['digits']}", f"zero_division {zero}"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = classification_report(case["true"], case["pred"], output_dict=True, **options)
            text = classification_report(case["true"], case["pred"], **options)
        for row, value in values.items():
            if row == "accuracy":
                value = {"precision": value, "recall": value, "f1-score": value, "support": -1}
            keys = ("precision", "recall", "f1-score", "support")
            lines.append(
                "value " + row.replace(" ", "_") + " " + " ".join("%.17g" % value[k] for k in keys)
            )
        lines += ["text"] + ["|" + line for line in text.split("\n")] + ["end"]
    (FOLDER / "reports.txt").write_text("\n".join(lines) + "\n")


FOLDER.mkdir(parents=True, exist_ok=True)
npz()
reports()
