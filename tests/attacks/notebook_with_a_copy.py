"""Hands in drafts beside the notebook: one with a name that is not text, one with a name that a spreadsheet computes."""

import json
import os

SCORE = 2
REASON = ""


def make(path, notebook):
    path.write_text(json.dumps(notebook))
    for name in ("A draft.ipynb", "scratch.ipynb", "=1+1.ipynb", "\x1b[2J.ipynb"):
        path.with_name(name).write_text("{}")
    with open(os.fsencode(path.parent) + b"/\xff\xfe.ipynb", "w") as file:
        file.write(json.dumps(notebook))
