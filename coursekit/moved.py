"""Exercises that have moved: the learner's answer, attempts and points move with them.

To move or rename an exercise, add a line; when it moves again, the old line names the new place too.
"""

MOVED: dict[str, str] = {}  # "ch05_faults/old_name": "ch06_cluster/new_name"


def moved(chapter: str, name: str) -> tuple[str, str] | None:
    """Return the chapter and the name of an exercise that has moved, None for one that has not."""
    new_chapter, _, new_name = MOVED.get(f"{chapter}/{name}", "").partition("/")
    return (new_chapter, new_name) if new_name else None
