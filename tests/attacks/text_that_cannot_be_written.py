"""Has half characters in its text and code, which cannot be written to any file, and zeros in its code."""

import json

from tests.attacks import code_cell

SCORE = 2
REASON = "a cell ended with"


def make(path, notebook):
    text = {"cell_type": "markdown", "metadata": {}, "source": "half a character: \ud83d"}
    odd = [text, code_cell("x = '\ud800'\nraise ValueError(x)"), code_cell("zero = '\0'"), code_cell("\udcff\udcfe")]
    path.write_text(json.dumps(notebook | {"cells": odd + notebook["cells"]}))
