"""Is a file of a terabyte, which takes no room on the disk and all the memory of its reader."""

import os

SCORE = None
REASON = "too large: 20 MB is the limit, so clear its outputs"


def make(path, notebook):
    path.touch()
    os.truncate(path, 2**40)
