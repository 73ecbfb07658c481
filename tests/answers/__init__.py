"""Right and wrong answers for every exercise: `@accepts(name)` and `@rejects(name)` above a function, a class, or `value(...)`."""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Sample(NamedTuple):
    """One answer to one exercise, named by its idea or its mistake."""

    exercise: str
    mistake: str
    answer: object
    right: bool
    says: str = ""  # what the message about a wrong answer must contain
    long: bool = False  # takes more than five seconds: `make test` has cheaper ones of its exercise


_SAMPLES: dict[str, list[Sample]] = {}  # by chapter


def samples(chapter: str) -> list[Sample]:
    """Return the answers to a chapter's exercises, in the order of its module here."""
    import_module(f"{__name__}.{chapter}")
    return _SAMPLES[chapter]


def accepts(exercise: str, long: bool = False) -> Callable[[T], T]:
    """Register a right answer that differs from our solution."""
    return _register(exercise, True, long=long)


def rejects(exercise: str, says: str = "", long: bool = False) -> Callable[[T], T]:
    """Register a wrong answer, named by its mistake, and perhaps words that the message must contain."""
    return _register(exercise, False, says, long)


def _register(exercise: str, right: bool, says: str = "", long: bool = False) -> Callable[[T], T]:
    def register(answer: T) -> T:
        chapter = answer.__module__.rpartition(".")[2]
        _SAMPLES.setdefault(chapter, []).append(Sample(exercise, answer.__name__, answer, right, says, long))
        return answer

    return register
