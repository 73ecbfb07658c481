"""Is a folder with the name of a notebook."""

SCORE = None
REASON = "not a regular file"


def make(path, notebook):
    path.mkdir()
