"""Is JSON of a hundred thousand lists in each other, which exhausts the stack of its reader."""

SCORE = None
REASON = "not a readable notebook"


def make(path, notebook):
    path.write_text('{"cells": ' + "[" * 100_000 + "]" * 100_000 + "}")
