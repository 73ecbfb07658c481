"""Steps that the checks of several chapters take."""

from coursekit.judging.answer import Watched


def plain_tasks(seen: Watched) -> list[dict]:
    """Return Ray's record of each task; creations and calls of actors are none."""
    return [task for task in seen.tasks() if task["kind"] == "task"]
