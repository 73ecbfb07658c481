"""Has a hundred thousand cells, each of which would be read, run and written."""

import json

from tests.attacks import code_cell

SCORE = None
REASON = "cells"


def make(path, notebook):
    path.write_text(json.dumps(notebook | {"cells": notebook["cells"] + [code_cell("1")] * 100_000}))
