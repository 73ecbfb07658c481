"""Has the grade ids of the quiz and the exercise exchanged, so that the easy answer counts for the hard one; each is judged where its id stands."""

import json

from tests.attacks import test_cells

SCORE = 1
REASON = "was edited"


def make(path, notebook):
    first, second = test_cells(notebook)
    first["metadata"], second["metadata"] = second["metadata"], first["metadata"]
    path.write_text(json.dumps(notebook))
