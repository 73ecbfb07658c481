"""Has code so deeply nested that parsing it exhausts the stack, in a notebook without its test cells."""

import json

from tests.attacks import code_cell, without_tests

SCORE = 2
REASON = "was missing: it was put back"


def make(path, notebook):
    deep = [
        "-" * 100_000 + "1",
        "(" * 5_000 + ")" * 5_000,
        "lambda:" * 20_000 + "0",
        "a" + ".a" * 50_000,
        "1 +" * 50_000 + "1",
    ]
    cells = [code_cell(source) for source in deep]
    notebook = without_tests(notebook)
    path.write_text(json.dumps(notebook | {"cells": cells + notebook["cells"]}))
