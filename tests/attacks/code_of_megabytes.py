"""Has a cell of five million statements, and no test cells, so that the grader looks for the answers by parsing it."""

import json

from tests.attacks import code_cell, without_tests

SCORE = 2
REASON = "was missing: it was put back"


def make(path, notebook):
    document = without_tests(notebook)
    path.write_text(json.dumps(document | {"cells": [code_cell("a=1;" * 4_500_000), *document["cells"]]}))
