"""Has many cells of thousands of lines, and no test cells, so that each cell would be parsed for each of them."""

import json

from tests.attacks import code_cell, without_tests

SCORE = 2
REASON = "was missing: it was put back"


def make(path, notebook):
    document = without_tests(notebook)
    lines = [code_cell("a\n" * 49_000) for _ in range(3)]
    path.write_text(json.dumps(document | {"cells": [*document["cells"], *lines]}))
