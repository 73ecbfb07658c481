"""Comes with a timestamp.txt, from which nbgrader reads when it was handed in, that holds no time."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    path.write_text(json.dumps(notebook))
    (path.parent / "timestamp.txt").write_text("yesterday, I promise")
