"""Ends its process in ten cells, one after the other, to use up the sandboxes that the grader gives it."""

import json

from tests.attacks import code_cell

SCORE = 2
REASON = "ended its own process (exit code 10)"


def make(path, notebook):
    cells = [code_cell(f"import os\nos._exit({number})") for number in range(1, 11)]
    path.write_text(json.dumps(notebook | {"cells": cells + notebook["cells"]}))
