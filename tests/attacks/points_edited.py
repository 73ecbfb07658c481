"""Has test cells worth a hundred points, and not a number of points."""

import json

from tests.attacks import test_cells

SCORE = 2
REASON = "was edited"


def make(path, notebook):
    first, second = test_cells(notebook)
    first["metadata"]["nbgrader"]["points"] = 100
    second["metadata"]["nbgrader"]["points"] = "NaN"
    path.write_text(json.dumps(notebook))
