"""Hides nine hundred dicts in each other in a cell's metadata: enough to read, too many to copy."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    nested: dict = {}
    for _ in range(900):
        nested = {"nbgrader": nested}
    notebook["cells"][1]["metadata"] = nested
    notebook["metadata"] = nested
    path.write_text(json.dumps(notebook))
