"""Shows pictures that are not in the file, are no pictures or are no data, at which the making of feedback pages stops."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    text = "![a](attachment:a.png) ![b](attachment:b.png) <img src='attachment:c.png'> ![d](attachment:) ![e](attachment:e)"
    cell = {"cell_type": "markdown", "metadata": {}, "source": text}
    attachments = {"b.png": {"text/html": "<script>"}, "c.png": 7, "e": {"image/png": ["x"]}, "f": {"image/png": "?"}}
    path.write_text(json.dumps(notebook | {"cells": [cell | {"attachments": attachments}, cell, *notebook["cells"]]}))
