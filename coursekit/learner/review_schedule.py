"""When what a learner has passed comes back: after 1, 7 and 30 days, or the next day after a miss.

What was answered is kept in review.json beside progress.json, in the same way. What was passed and never reviewed is not in it.
"""

import json
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from typing import Any, NamedTuple

import filelock

from coursekit.basics.cards import plural
from coursekit.basics.files import write_whole
from coursekit.basics.paths import PACKAGE
from coursekit.judging import quiz_text
from coursekit.learner import progress
from coursekit.learner.progress import home, load, locked, read
from coursekit.learner.renamed_exercises import MOVED
from coursekit.learner.small_exercises import small_exercises

DAYS = (1, 7, 30)  # from a pass to the first review, and from one that went well to the next
AT_ONCE = 3


class Item(NamedTuple):
    """A quiz or a small exercise that was passed."""

    chapter: str
    name: str


class Review(NamedTuple):
    """How many reviews of an item went well, the days of the next one and of the last; none is left after the last of DAYS."""

    step: int
    due: date
    last: date | None = None


Reviews = dict[Item, Review]


def today() -> date:
    """Return the learner's date."""
    return date.fromtimestamp(progress.now())


def due_items() -> Iterator[Item]:
    """Yield what is due, what has waited longest first, and last what was passed before times were kept."""
    saved, (reviews, _), day = load()[0], _load(), today()
    found = []
    for item in (Item(chapter, name) for chapter, items in saved.items() for name in items):
        entry = saved[item.chapter][item.name]
        if entry.get("status") == "passed":
            review = reviews.get(item) or _first(entry)
            if review.step < len(DAYS) and review.due <= day:
                found.append((review.due, not entry.get("passed"), item))
    yield from (item for *_, item in sorted(found) if is_question(item) or item.name in small_exercises(item.chapter))


def is_question(item: Item) -> bool:
    """Return whether it is a quiz that the course has."""
    return item.name in questions(item.chapter)


@cache
def questions(chapter: str) -> dict[str, quiz_text.Question]:
    """Return the quizzes of a chapter by name, none where the course has no such chapter."""
    path = PACKAGE / f"exercises/{chapter}.py"
    return quiz_text.read(path) if path.exists() else {}


def is_invited(chapter: str) -> bool:
    """Return whether questions of other chapters are due, and today's three are not answered yet."""
    if sum(each.last == today() for each in _load()[0].values()) >= AT_ONCE:
        return False
    return any(item.chapter != chapter and is_question(item) for item in due_items())


def answered(item: Item, right: bool) -> str:
    """Keep an answer, and return when the item comes back; what is not due, as after an answer in another notebook, stays as it is."""
    try:
        entry = load()[0].get(item.chapter, {}).get(item.name, {})
        with locked("review") as path:
            reviews, note = read(path, _understood, Reviews())
            review = reviews.get(item) or _first(entry)
            if review.due <= today() and review.step < len(DAYS):
                step = review.step + right
                wait = (*DAYS, 0)[step] if right else 1
                review = reviews[item] = Review(step, today() + timedelta(wait), today())
                write_whole(path, _text(reviews))
    except (OSError, filelock.Timeout) as error:
        return f"This review could not be saved in {home()} ({error})."
    left = (review.due - today()).days
    when = "It comes back tomorrow." if left == 1 else f"It comes back in {plural(left, 'day')}."
    return " ".join(filter(None, [when if review.step < len(DAYS) else "That was its last review.", note]))


def _first(entry: dict[str, Any]) -> Review:
    """Return when an item that was never reviewed comes back: at once where it was passed before times were kept."""
    passed = entry.get("passed")
    return Review(0, date.fromtimestamp(passed) + timedelta(DAYS[0]) if passed else today())


def _load() -> tuple[Reviews, str]:
    try:
        with locked("review") as path:
            return read(path, _understood, Reviews())
    except (OSError, filelock.Timeout) as error:
        return Reviews(), f"Your reviews in {home()} could not be read ({error})."


def _understood(content: Any) -> Reviews:
    kept = {MOVED.get(place, place): each for place, each in content["items"].items()}
    return {
        Item(*place.split("/")): Review(
            int(each["step"]), date.fromisoformat(each["due"]), date.fromisoformat(each["last"])
        )
        for place, each in kept.items()
    }


def _text(reviews: Reviews) -> str:
    items = {
        "/".join(item): {"step": each.step, "due": str(each.due), "last": str(each.last)}
        for item, each in reviews.items()
    }
    return json.dumps({"version": 1, "items": items}, indent=1)
