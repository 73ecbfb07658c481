"""Is a picture with the name of a notebook."""

SCORE = None
REASON = "not a readable notebook"


def make(path, notebook):
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100)
