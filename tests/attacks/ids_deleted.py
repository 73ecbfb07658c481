"""Has lost nbgrader's metadata and its cell ids, as after a round through another editor."""

import json

SCORE = 2
REASON = "was missing: it was put back"


def make(path, notebook):
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    path.write_text(json.dumps(notebook | {"nbformat_minor": 4}))
