"""Has no test cells: they were deleted with their outputs."""

import json

from tests.attacks import without_tests

SCORE = 2
REASON = "best_seconds was missing: it was put back"


def make(path, notebook):
    path.write_text(json.dumps(without_tests(notebook)))
