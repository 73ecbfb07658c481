"""Is good JSON, and not a notebook."""

SCORE = None
REASON = "no list of cells"


def make(path, notebook):
    path.write_text('{"status": "passed", "score": 100}')
