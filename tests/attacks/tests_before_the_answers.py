"""Has its test cells moved to the top, in front of a patch that would spoil them further down."""

import json

from tests.attacks import test_cells, without_tests

SCORE = 0
REASON = "does not exist here"


def make(path, notebook):
    path.write_text(json.dumps(notebook | {"cells": test_cells(notebook) + without_tests(notebook)["cells"]}))
