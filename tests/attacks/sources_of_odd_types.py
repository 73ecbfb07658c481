"""Has numbers, nothing and nested lists where the text of a cell should be."""

import json

from tests.attacks import code_cell

SCORE = 2
REASON = ""


def make(path, notebook):
    odd = [code_cell(source) for source in (7, None, ["a = 1\n", 7, ["b"]], {"source": "1"}, True)]
    path.write_text(json.dumps(notebook | {"cells": odd + notebook["cells"]}))
