"""Has raw cells, headings, cells of unknown types and cells that are no cells among the good ones."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    kinds = ["raw", "heading", "passed", 7, None, ["code"]]
    odd = [{"cell_type": kind, "metadata": {}, "source": "os._exit(0)"} for kind in kinds]
    odd += [{}, "a string", None, ["code"], 7.5]
    path.write_text(json.dumps(notebook | {"cells": odd + notebook["cells"] + odd}))
