"""Has text, numbers and lists where metadata, grade ids and points should be."""

import json

from tests.attacks import code_cell

SCORE = 2
REASON = ""


def make(path, notebook):
    odd = [code_cell("1") | {"metadata": metadata} for metadata in ("passed", 7, None, [])]
    odd += [
        code_cell("1", nbgrader=value) for value in ("graded", 7, [], {"grade_id": ["best_seconds"], "points": "100"})
    ]
    odd += [code_cell("1", nbgrader={"grade_id": None, "grade": "yes", "points": float("inf")}, tags="demo")]
    path.write_text(json.dumps(notebook | {"cells": odd + notebook["cells"], "metadata": [1]}))
