"""Has no cells at all."""

import json

SCORE = 0
REASON = "was missing: it was put back"


def make(path, notebook):
    path.write_text(json.dumps(notebook | {"cells": []}))
