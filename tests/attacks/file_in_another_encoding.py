"""Was saved as UTF-16, as an old editor does."""

import json

SCORE = None
REASON = "not a readable notebook"


def make(path, notebook):
    path.write_text(json.dumps(notebook), encoding="utf-16")
