"""How fast a learner is: the time that exercises and quizzes took, with the text above them, and the minutes that are left."""

from collections.abc import Iterable
from functools import cache

from coursekit.basics.paths import PACKAGE
from coursekit.judging.declared import declared
from coursekit.judging.exercise import Quiz
from coursekit.learner.progress import Saved

FEWEST = 5  # exercises, before a pace is known


@cache
def exercise_minutes(chapter: str) -> dict[str, int]:
    """Return the minutes that each exercise of a chapter declares."""
    path = PACKAGE / f"exercises/{chapter}.py"
    return {name: said.minutes for name, said in declared(path).items()} if path.exists() else {}


def pace(saved: Saved) -> float | None:
    """Return how many minutes pass for each declared one; None before five exercises are passed whose time is known.

    It is a ratio of sums: a quiz of one minute may have ten minutes of text above it, and no pause is longer than half an hour.
    """
    timed = [
        (chapter, name, each["seconds"])
        for chapter, items in saved.items()
        for name, each in items.items()
        if each.get("status") == "passed" and each.get("seconds")
    ]
    if sum(name in exercise_minutes(chapter) for chapter, name, _ in timed) < FEWEST:
        return None
    seconds = sum(each for *_, each in timed)
    return seconds / 60 / sum(minutes(chapter, [name]) for chapter, name, _ in timed)


def minutes(chapter: str, names: Iterable[str]) -> int:
    """Return the minutes that exercises and quizzes of a chapter declare."""
    return sum(exercise_minutes(chapter).get(name, Quiz.minutes) for name in names)


def in_words(minutes: float) -> str:
    """Return a span of time as people say it: `35 minutes`, `14 hours`."""
    return f"{max(5, round(minutes / 5) * 5)} minutes" if minutes < 90 else f"{round(minutes / 60)} hours"
