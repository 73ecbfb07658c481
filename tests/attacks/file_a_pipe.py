"""Is a named pipe: whoever opens it waits for ever."""

import os

SCORE = None
REASON = "not a regular file"


def make(path, notebook):
    os.mkfifo(path)
