"""Is a named pipe: a reader who opens it waits forever."""

import os

SCORE = None
REASON = "not a regular file"


def make(path, notebook):
    os.mkfifo(path)
