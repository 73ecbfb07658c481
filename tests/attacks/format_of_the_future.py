"""Says that it is in a notebook format that does not exist yet."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    path.write_text(json.dumps(notebook | {"nbformat": 99, "nbformat_minor": "x"}))
