"""Steps that the checks of several chapters take."""

from coursekit.judging.answer import Watched


def plain_tasks(seen: Watched) -> list[dict]:
    """Return Ray's record of each task; creations and calls of actors are none, nor is what is no record."""
    rows: object = seen.tasks()  # from the learner's process: it may be anything
    rows = rows if isinstance(rows, list) else []
    return [row for row in rows if isinstance(row, dict) and row.get("kind") == "task"]
