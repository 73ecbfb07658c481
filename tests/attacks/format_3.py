"""Was saved in the notebook format of 2014."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    cells = [as_in_2014(cell) for cell in notebook["cells"]]
    worksheets = [{"cells": cells, "metadata": {}}]
    path.write_text(
        json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": worksheets})
    )


def as_in_2014(cell):
    common = {"cell_type": cell["cell_type"], "metadata": cell["metadata"]}
    if cell["cell_type"] != "code":
        return common | {"source": cell["source"]}
    return common | {"input": cell["source"], "language": "python", "outputs": [], "collapsed": False}
