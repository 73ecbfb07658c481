"""Comes with a timestamp.txt that is a pipe: a grader that reads the time waits forever."""

import json
import os

SCORE = 2
REASON = ""


def make(path, notebook):
    path.write_text(json.dumps(notebook))
    os.mkfifo(path.parent / "timestamp.txt")
