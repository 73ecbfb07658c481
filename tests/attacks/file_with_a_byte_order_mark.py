"""Begins with the mark that Windows editors put in front of UTF-8."""

import json

SCORE = 2
REASON = ""


def make(path, notebook):
    path.write_text(json.dumps(notebook), encoding="utf-8-sig")
