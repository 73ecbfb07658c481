"""Has each test cell ten times, as happens when cells are copied and pasted (it stopped nbgrader's whole batch)."""

import json

from tests.attacks import test_cells

SCORE = 2
REASON = "was there more than once"


def make(path, notebook):
    path.write_text(json.dumps(notebook | {"cells": notebook["cells"] + test_cells(notebook) * 9}))
