"""Hands in the notebook under another name."""

import json

SCORE = None
REASON = "was it renamed?"


def make(path, notebook):
    path.with_name("ch00_start (1).ipynb").write_text(json.dumps(notebook))
