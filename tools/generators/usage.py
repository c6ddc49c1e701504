"""--help for programs that import what not every machine has: asked before that.

import usage

usage.answer(__doc__)
import torch  # noqa: E402
"""

import sys


def answer(doc, least=0):
    """Ends the program with its docstring where --help was asked for, or fewer than `least` arguments given."""
    asked = any(word in ("-h", "--help") for word in sys.argv[1:])
    if asked or len(sys.argv) - 1 < least:
        print(doc.strip(), file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
