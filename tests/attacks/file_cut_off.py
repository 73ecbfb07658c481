"""Breaks off in the middle, as an upload that was interrupted does."""

import json

SCORE = None
REASON = "not a readable notebook"


def make(path, notebook):
    text = json.dumps(notebook)
    path.write_text(text[: len(text) // 2])
