"""Is a link to the whole folder of a student who solved everything."""

SCORE = None
REASON = "link"


def make(path, notebook):
    path.parent.rmdir()
    path.parent.symlink_to("../honest_solved/ch00_start")
