"""Is an empty file."""

SCORE = None
REASON = "not a readable notebook"


def make(path, notebook):
    path.write_text("")
