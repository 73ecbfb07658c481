"""Is a link to a device that never ends."""

SCORE = None
REASON = "link"


def make(path, notebook):
    path.symlink_to("/dev/zero")
