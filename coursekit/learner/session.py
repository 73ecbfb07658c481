"""The chapter that has begun in this notebook: its exercises, the results so far, the hints given."""

from collections.abc import Sequence
from dataclasses import dataclass

from coursekit.basics.cards import card, plural, prose
from coursekit.basics.dates import due_line
from coursekit.basics.versions import untested_ray
from coursekit.judging import exercise
from coursekit.judging.result import SIGNS, Result
from coursekit.learner import shell
from coursekit.learner.progress import load
from coursekit.learner.workshop import live_question
from coursekit.ray_bridge.quiet import quiet


@dataclass
class Session:
    """What this notebook has seen: its chapter, the results so far, the hints given."""

    chapter: str
    results: dict[str, Result]
    hints: dict[str, int]
    closed: tuple[str, ...] = ()  # the help that the class's instructor closed


_session: Session | None = None


@dataclass(frozen=True)
class Contents:
    """The exercises of a chapter with their points, for `begin` to show."""

    rows: list[tuple[str, str, int, int]]  # sign, name, points, minutes
    note: str = ""

    def __str__(self) -> str:
        lines = [
            f"{sign} {name}: {plural(points, 'point')}, {minutes} min" for sign, name, points, minutes in self.rows
        ]
        return "\n".join(filter(None, [*lines, self.note]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<div>{sign} <code>{name}</code> · {plural(points, 'point')} · {minutes} min</div>"
            for sign, name, points, minutes in self.rows
        )
        total = sum(row[2] for row in self.rows)
        return card(f"{plural(total, 'point')} in this chapter", lines + prose(self.note), "#2563eb")


def begin(chapter: str, *, due: str = "", closed: Sequence[str] = ()) -> Contents:
    """Start a chapter: quiet Ray's log, and list the exercises with what you have earned, and the due date if there is one."""
    global _session
    quiet()
    items = exercise.load(chapter)
    _session = Session(chapter, {}, {}, tuple(closed))
    shell.watch_cells()
    live_question.listen()
    saved, note = load()
    signs = {name: SIGNS[each["status"]] for name, each in saved.get(chapter, {}).items()}
    rows = [(signs.get(item.name, "○"), item.name, item.points, item.minutes) for item in items.values()]
    return Contents(rows, "\n".join(filter(None, [due_line(due), note, untested_ray()])))


def chapter() -> str:
    """Return the chapter that has begun."""
    return current().chapter


def current() -> Session:
    """Return what this notebook has seen; raises RuntimeError where no chapter has begun."""
    if _session is None:
        raise RuntimeError("No chapter has begun: run the first cell of the notebook, the one with begin(...).")
    return _session
