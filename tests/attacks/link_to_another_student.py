"""Is a link to the notebook of a student who solved everything."""

SCORE = None
REASON = "link"


def make(path, notebook):
    path.symlink_to("../../honest_solved/ch00_start/ch00_start.ipynb")
