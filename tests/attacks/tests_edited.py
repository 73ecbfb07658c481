"""Has test cells that say True, and one that was made text, and does not solve the exercise."""

import json

from tests.attacks import notebook as notebook_with
from tests.attacks import test_cells

SCORE = 1
REASON = "the test cell best_seconds was edited"


def make(path, notebook):
    notebook = notebook_with(best_seconds="def best_seconds(*args):\n    return 0")
    first, second = test_cells(notebook)
    first["source"] = "assert True"
    second |= {"cell_type": "markdown", "source": "passed"}
    path.write_text(json.dumps(notebook))
