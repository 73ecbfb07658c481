"""Prints the most that is kept in each of two hundred cells, to fill the grader's memory with output."""

import json

from tests.attacks import code_cell

SCORE = 2
REASON = "output"


def make(path, notebook):
    cells = [code_cell(f'print("{number}" * 10**6)') for number in range(200)]
    path.write_text(json.dumps(notebook | {"cells": notebook["cells"] + cells}))
