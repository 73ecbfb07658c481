"""Adds test cells of its own that are worth a hundred points, and answer cells that claim to be graded."""

import json

from tests.attacks import code_cell

SCORE = 2
REASON = ""


def make(path, notebook):
    mine = {"grade": True, "grade_id": "bonus", "points": 100, "locked": True, "solution": False, "schema_version": 3}
    cells = [
        code_cell("assert True", nbgrader=mine),
        code_cell("1", nbgrader=mine | {"solution": True, "schema_version": 99}),
    ]
    cells += [code_cell("2", nbgrader={"grade": True})]
    for cell in notebook["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"] |= {"grade": True, "points": 100}
    path.write_text(json.dumps(notebook | {"cells": cells + notebook["cells"]}))
