"""Has a number where the cells should be."""

import json

SCORE = None
REASON = "no list of cells"


def make(path, notebook):
    path.write_text(json.dumps(notebook | {"cells": 7}))
