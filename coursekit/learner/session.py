"""The chapter that has begun in this notebook: its exercises, the results so far, the hints given."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coursekit.basics.dates import due_line
from coursekit.basics.readers_language import stays_english, take_up_in_notebook, with_translation
from coursekit.basics.versions import untested_ray
from coursekit.judging import exercise
from coursekit.judging.result import Result
from coursekit.learner import progress, shell, surroundings
from coursekit.learner.overview import Contents, contents
from coursekit.learner.review_schedule import Item
from coursekit.learner.workshop import outbox
from coursekit.ray_bridge.quiet import quiet

ENGLISH = "This chapter isn't translated yet: its text, checks, and hints are in English."


@dataclass
class Session:
    """What this notebook has seen: its chapter, the results so far, the hints given."""

    chapter: str
    results: dict[str, Result]
    hints: dict[str, int]
    closed: tuple[str, ...] = ()  # the help that the class's instructor closed
    quizzes: bool = True  # whether they earn points in the class
    ended: dict[str, list[str]] = field(default_factory=dict)  # of each exercise, the ids of the messages, one a check
    explained: set[tuple[str, str]] = field(default_factory=set)  # exercise and message whose own hint was given
    at: float = field(default_factory=lambda: progress.now())  # when it began, and then when the last check ended
    # the questions of a review that wait for an answer, with the letters of their options, and the author's letters
    asked: dict[Item, dict[str, str]] = field(default_factory=dict)

    def keep(self, result: Result) -> None:
        """Note a result; that of the exercise which was checked last stands last."""
        self.results.pop(result.name, None)
        self.results[result.name] = result
        self.ended.setdefault(result.name, []).append(result.message_id)

    def since_last(self) -> float:
        """Return the seconds since the last check, or since the chapter began; the next ones count from now."""
        before, self.at = self.at, progress.now()
        return self.at - before

    def repeated(self, name: str) -> str:
        """Return the id of the message at which the last two checks of an exercise ended, "" where they differ."""
        last = self.ended.get(name, [])[-2:]
        return last[0] if len(last) == 2 and last[0] == last[1] else ""


_session: Session | None = None


def begin(chapter: str, *, due: str = "", closed: Sequence[str] = (), quizzes: bool = True) -> Contents:
    """Start a chapter: quiet Ray's log, and list the exercises with what you have earned, and the due date if there is one.

    In a class whose quizzes earn nothing, the notebook says `quizzes=False`.
    """
    global _session
    quiet()
    take_up_in_notebook(chapter)
    exercise.load(chapter)
    _session = Session(chapter, {}, {}, tuple(closed), quizzes)
    shell.watch_cells()
    outbox.resume()
    english = ENGLISH if stays_english(chapter) else ""
    notes = (english, due_line(due), untested_ray(), *surroundings.warnings(chapter))
    return contents(chapter, *notes, quizzes=quizzes)


def chapter() -> str:
    """Return the chapter that has begun."""
    return current().chapter


def current() -> Session:
    """Return what this notebook has seen; raises RuntimeError where no chapter has begun."""
    if _session is None:
        take_up_in_notebook("")
        raise with_translation(
            RuntimeError("No chapter has begun: run the first cell of the notebook, the one with begin(...).")
        )
    return _session
