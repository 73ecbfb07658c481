"""Hands in a folder with nothing in it."""

SCORE = None
REASON = "no notebook was handed in"


def make(path, notebook):
    pass
