"""What an exercise is: points, minutes, hints, and a check that may say why an answer is wrong."""

import difflib
import inspect
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from coursekit.answer import NOT_PLAIN, Answer, Raised
from coursekit.result import Result

PUBLIC_SEED = 2026
Check = Callable[[Answer, np.random.Generator], None]


class Wrong(Exception):
    """The answer is not right yet; the message says what to look at."""


class AuthorError(Exception):
    """A chapter or its exercises are not as they must be; the message says what to mend."""


class UnknownName(LookupError):
    """There is no exercise, quiz or chapter of this name; the message lists the near ones."""


@dataclass(frozen=True)
class Exercise:
    """One graded exercise; `idea` is the sentence that comes with the solution."""

    chapter: str
    name: str
    points: int
    minutes: int
    hints: tuple[str, ...]
    idea: str
    check: Check
    line: int
    alone: bool = False  # it measures time: grading gives it the machine to itself
    kind = "exercise"


@dataclass(frozen=True)
class Quiz:
    """One question; `options` maps a letter to what is shown and to what it answers back."""

    chapter: str
    name: str
    question: str
    options: dict[str, tuple[str, str]]
    key: str
    line: int
    points: int = 1
    minutes: int = 1
    kind = "quiz"


REGISTRY: dict[str, dict[str, Exercise | Quiz]] = {}  # by chapter, in the order written


def exercise(*, points: int, minutes: int, hints: list[str], alone: bool = False) -> Callable[[Check], Check]:
    """Return a decorator that makes a check an exercise of its module's chapter; the docstring is the idea.

    `alone` is for a check that measures time: grading runs no other submission meanwhile.
    """

    def register(check: Check) -> Check:
        chapter, line = check.__module__.rpartition(".")[2], check.__code__.co_firstlineno
        idea = inspect.getdoc(check) or ""
        _register(Exercise(chapter, check.__name__, points, minutes, tuple(hints), idea, check, line, alone))
        return check

    return register


def quiz(name: str, *, question: str, options: dict[str, tuple[str, str]], key: str) -> None:
    """Register a question of the calling module's chapter: each option is what is shown, and what it answers back."""
    frame = inspect.stack()[1]
    chapter = frame.frame.f_globals["__name__"].rpartition(".")[2]
    if not question.strip() or len(options) < 2 or key not in options:
        raise AuthorError(
            f"{_place(chapter, frame.lineno)}: quiz {name!r} needs a question, options, and a key among them."
        )
    _register(Quiz(chapter, name, inspect.cleandoc(question), options, key, frame.lineno))


def _register(item: Exercise | Quiz) -> None:
    known = REGISTRY.setdefault(item.chapter, {})
    if item.name in known:
        raise AuthorError(
            f"{_place(item.chapter, item.line)}: {item.name!r} is already defined at line {known[item.name].line}."
        )
    known[item.name] = item


def _place(chapter: str, line: int) -> str:
    return f"coursekit/exercises/{chapter}.py:{line}"


def load(chapter: str) -> dict[str, Exercise | Quiz]:
    """Return a chapter's exercises and quizzes by name, in the order written."""
    try:
        import_module(f"coursekit.exercises.{chapter}")
    except ModuleNotFoundError as error:
        if error.name != f"coursekit.exercises.{chapter}":
            raise
        raise UnknownName(f"There is no chapter {chapter!r}: it has no coursekit/exercises/{chapter}.py.") from None
    except AuthorError:
        REGISTRY.pop(chapter, None)
        raise
    return REGISTRY.get(chapter, {})


def find(chapter: str, name: str, kind: str) -> Exercise | Quiz:
    """Return the exercise or quiz of a chapter; raises UnknownName with the nearest names."""
    if not isinstance(name, str):
        raise UnknownName(
            f"Give the name in quotes, as text, not {type(name).__name__} `{getattr(name, '__name__', name)}`."
        )
    items = load(chapter)
    if name in items and items[name].kind == kind:
        return items[name]
    if name in items:
        caller = {"quiz": "quiz", "exercise": "check"}[items[name].kind]
        article = "an exercise" if caller == "check" else "a quiz, which has no hints"
        raise UnknownName(f'{name!r} is {article}: call {caller}("{name}", {name}).')
    same_kind = [item.name for item in items.values() if item.kind == kind]
    near = difflib.get_close_matches(name, same_kind, n=3, cutoff=0.6) or same_kind
    raise UnknownName(f"{chapter} has no {kind} {name!r}. Near: {', '.join(near) or 'none'}.")


def judge(item: Exercise | Quiz, answer: Answer, seed: int = PUBLIC_SEED) -> Result:
    """Return the result of one check. The same code judges in a notebook and in grading; only `answer` and `seed` differ."""
    verdict = _verdict_of_quiz if isinstance(item, Quiz) else _verdict_of_exercise
    try:
        message = verdict(item, answer, seed)  # type: ignore[arg-type]
        return Result.of(item, "passed", message)
    except Wrong as wrong:
        nothing = "\nNothing came back: is a `return` missing?" if answer.got == "None" else ""
        return Result.of(item, "wrong", f"{wrong}{nothing}", tried=answer.tried, got=answer.got)
    except Raised as raised:
        if raised.todo:
            return Result.of(item, "todo", "Not attempted yet.")
        if raised.kind == NOT_PLAIN:
            return Result.of(item, "wrong", raised.message, tried=answer.tried)
        return Result.of(item, "crashed", f"Your code raised {raised}", tried=answer.tried, where=raised.where)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        text = f"What came back is not of the form that the check expects ({type(error).__name__}: {error})."
        return Result.of(item, "wrong", text, tried=answer.tried, got=answer.got)


def _verdict_of_exercise(item: Exercise, answer: Answer, seed: int) -> str:
    item.check(answer, np.random.default_rng([seed, zlib.crc32(f"{item.chapter}/{item.name}".encode())]))
    return ""


def _verdict_of_quiz(item: Quiz, answer: Answer, seed: int) -> str:
    chosen = answer.value()
    letters = ", ".join(item.options)
    expect(isinstance(chosen, str) and len(chosen) < 100, f"Answer with one of the letters {letters}, in quotes.")
    letter = chosen.strip().lower()
    expect(letter in item.options, f"There is no option {chosen!r}. Choose one of {letters}.")
    _, feedback = item.options[letter]
    expect(letter == item.key, feedback)
    return feedback


def expect(condition: object, message: str) -> None:
    """Fail the check with a message for the learner unless the condition holds."""
    if not condition:
        raise Wrong(message)


def expect_equal(got: object, want: object, message: str) -> None:
    """Fail the check unless both are equal; a list, a tuple and an array of equal items are equal."""
    expect(agree(got, want), message)


def expect_close(got: object, want: object, message: str, rtol: float = 1e-5, atol: float = 1e-8) -> None:
    """Fail the check unless both agree within `atol + rtol * |want|`, number by number."""
    expect(agree(got, want, rtol, atol), message)


def agree(got: object, want: object, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Return whether two plain values are the same, shapes included, numbers within a tolerance."""
    if isinstance(got, np.ndarray) and got.ndim == 0:
        got = got.item()
    if isinstance(want, dict):
        return (
            isinstance(got, dict)
            and got.keys() == want.keys()
            and all(agree(got[key], want[key], rtol, atol) for key in want)
        )
    if isinstance(got, np.ndarray) and isinstance(want, np.ndarray) and got.dtype.kind in "biufc":
        return got.shape == want.shape and bool(np.allclose(got, want, rtol, atol, equal_nan=True))
    sequence = (list, tuple, np.ndarray)
    if isinstance(got, sequence) or isinstance(want, sequence):
        if not (isinstance(got, sequence) and isinstance(want, sequence) and len(got) == len(want)):
            return False
        return all(agree(g, w, rtol, atol) for g, w in zip(got, want, strict=True))
    numbers = (int, float)
    if isinstance(got, numbers) and isinstance(want, numbers) and (rtol or atol):
        return bool(np.isclose(got, want, rtol, atol, equal_nan=True))
    return bool(got == want)
