"""Has text with scripts, frames, links that run code and pictures that close their attribute, for nbgrader's pages."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    text = (
        "<script>alert(1)</script> <img src=x onerror=alert(1)> <base href='//x'> [marks](javascript:alert(1)) "
        "![a](attachment:a.png)\n\n[marks]: javascript:alert(1)\n\n<iframe srcdoc='<script>alert(1)</script>'></iframe>"
    )
    attachments = {"a.png": {"image/x' onerror='alert(1)": "?"}, "\ud800": {"image/png": "\ud800"}}
    cell = {"cell_type": "markdown", "metadata": {}, "source": text, "attachments": attachments}
    path.write_text(json.dumps(notebook | {"cells": [cell, *notebook["cells"]]}))
