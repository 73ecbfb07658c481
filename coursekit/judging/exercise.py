"""What an exercise is: points, minutes, hints, and a check that may say why an answer is wrong."""

import difflib
import inspect
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from coursekit.basics.cells import JUDGES
from coursekit.basics.errors import CommandError
from coursekit.basics.versions import in_words
from coursekit.judging import message_ids, quiz_text
from coursekit.judging.answer import NOT_CALLABLE, NOT_PLAIN, NOT_THERE, Answer, OwnRequestFailed, Raised, Unreachable
from coursekit.judging.expect import Wrong, expect_close
from coursekit.judging.form import WrongType, at
from coursekit.judging.message_ids import Said, said
from coursekit.judging.result import Result

PUBLIC_SEED = 2026
CALLS = {kind: call for call, kind in JUDGES.items()}  # what a learner calls for each kind
CALLED = {"check": "an exercise", "quiz": "a quiz", "no hints": "a quiz, which has no hints"}
Check = Callable[[Answer, np.random.Generator], None]
# Of each case, the arguments of a call and what it must return.
Table = Callable[[np.random.Generator], Iterable[tuple[tuple, object]]]


class AuthorError(CommandError):
    """A chapter or its exercises break a rule; the message says what to fix."""


class UnknownName(LookupError):
    """There is no exercise, quiz or chapter with this name; the message lists the nearest ones."""


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
    returns: Any = Any  # the form of what a call of the answer must return
    needs: dict[str, int] = field(default_factory=dict, compare=False)  # of the chapter's Ray
    spare: tuple[str, ...] = ()  # lines that a puzzle of our solution has too many; none: it has no puzzle
    launches: bool = False  # whether its check launches tasks, which `explain` draws
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


def exercise(
    *,
    points: int,
    minutes: int,
    hints: list[str],
    alone: bool = False,
    returns: Any = Any,
    needs: dict[str, int] | None = None,
    message: str = "",
    spare: Sequence[str] = (),
    launches: bool = True,
) -> Callable[[Any], Any]:
    """Return a decorator that makes a check an exercise of its module's chapter; the docstring is the idea.

    A function of `answer` and `rng` is a check. A function of `rng` alone is a table: it returns cases, each the arguments of a call
    and what the call must return, and `message` is for the learner whose answer returns something else (numbers agree
    within 1e-5). `returns` is the form that every call must return: `list[int]`, for example. `alone` is for a check that measures
    time: grading runs no other submission meanwhile. `needs` is what Ray must have for the check, on all nodes together:
    `{"CPU": 4}`, or `{"node": 3, "CPU": 6}`; `launches=False` where the answer launches no task with it. Where our solution is the usual one, `spare` gives it a puzzle: one or two
    lines that do not belong to it, indented as they would stand.
    """

    def register(check: Any) -> Any:
        chapter, line = check.__module__.rpartition(".")[2], check.__code__.co_firstlineno
        is_table = check.__code__.co_varnames[: check.__code__.co_argcount] == ("rng",)
        if is_table != bool(message):
            wants = (
                "needs `message=`, for the learner whose answer returns something else"
                if is_table
                else "has its messages at its `expect`s, and no `message=`"
            )
            raise AuthorError(f"{_place(chapter, line)}: {check.__name__!r} {wants}.")
        idea, judging = inspect.getdoc(check) or "", _of_table(check, message) if is_table else check
        place = (chapter, check.__name__, points, minutes, tuple(hints), idea, judging, line)
        _register(Exercise(*place, alone, returns, needs or {}, tuple(spare), bool(needs) and launches))
        return check

    return register


def _of_table(table: Table, message: str) -> Check:
    """Return the check that goes through a table of cases."""

    def check(answer: Answer, rng: np.random.Generator) -> None:
        for arguments, wanted in table(rng):
            expect_close(answer(*arguments), wanted, message)

    return check


def question(name: str, text: str) -> None:
    """Register a question of the calling module's chapter; `coursekit.judging.quiz_text` shows how its text is written."""
    frame = sys._getframe(1)  # inspect.stack reads the source of every caller: half a second a question
    chapter = frame.f_globals["__name__"].rpartition(".")[2]
    try:
        question, options, key = quiz_text.parse(text)
    except ValueError as error:
        raise AuthorError(f"{_place(chapter, frame.f_lineno)}: {name!r}: {error}.") from None
    _register(Quiz(chapter, name, question, options, key, frame.f_lineno))


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
        known = [path.stem for path in sorted(Path(__file__).parents[1].glob("exercises/ch*.py"))]
        near = difflib.get_close_matches(str(chapter), known, n=3, cutoff=0)
        raise UnknownName(f"There is no chapter {chapter!r}. The nearest names: {', '.join(near)}.") from None
    except AuthorError:
        REGISTRY.pop(chapter, None)
        raise
    return REGISTRY.get(chapter, {})


def find(chapter: str, name: str, kind: str, caller: str = "") -> Exercise | Quiz:
    """Return the exercise or quiz of a chapter; raises UnknownName with the nearest names, and what to type instead.

    `caller` is what the learner called, where it is neither `check` nor `quiz`.
    """
    if not isinstance(name, str):
        raise UnknownName(f"Give the name in quotes, not {type(name).__name__} `{getattr(name, '__name__', name)}`.")
    items = load(chapter)
    if name in items and items[name].kind == kind:
        return items[name]
    if name in items:
        right = CALLS[items[name].kind]
        article = CALLED["no hints" if caller == "hint" and right == "quiz" else right]
        raise UnknownName(f'{name!r} is {article}: call {right}("{name}", {name}).')
    same_kind = [item.name for item in items.values() if item.kind == kind]
    near = difflib.get_close_matches(name, same_kind, n=3, cutoff=0.6) or same_kind
    example = f' Type {caller or CALLS[kind]}("{near[0]}").' if near else ""
    raise UnknownName(f"{chapter} has no {kind} {name!r}. The nearest names: {', '.join(near) or 'none'}.{example}")


def judge(item: Exercise | Quiz, answer: Answer, seed: int = PUBLIC_SEED) -> Result:
    """Return the result of one check. The same code judges in a notebook and in grading; only `answer` and `seed` differ."""
    if isinstance(item, Quiz):
        return _judge_choice(item, answer)
    answer.returns = item.returns
    try:
        item.check(answer, np.random.default_rng([seed, zlib.crc32(f"{item.chapter}/{item.name}".encode())]))
        return Result.of(item, "passed", curve=answer.curve)
    except Wrong as wrong:
        found = message_ids.at(wrong.__traceback__, str(wrong), wrong.mistake)
        of_table = Said(str(wrong), message_ids.id_of(str(wrong)))
        return _wrong(item, answer, found if found.id else of_table)
    except WrongType as wrong:
        return _wrong(item, answer, said("returns", wanted=wrong.wanted, place=at(wrong.place), got=wrong.got))
    except Raised as raised:
        return _raised(item, answer, raised)
    except Unreachable:
        raise
    except Exception as error:
        return _unjudged(item, answer, error)


def _unjudged(item: Exercise, answer: Answer, error: Exception) -> Result:
    """Return the result of a check that itself failed, with what its author needs to find the mistake."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{item.chapter}/{item.name}, {last.name}() at line {last.lineno} of {last.filename.rpartition('/')[2]}"
    words = said("unjudged", check=where, error=f"{type(error).__name__}: {error}"[:300], versions=in_words())
    return Result.of(item, "unjudged", words, tried=answer.tried, got=answer.got)


def _judge_choice(item: Quiz, answer: Answer) -> Result:
    """Return the result of a quiz: the choice's own feedback."""
    try:
        chosen = answer.value()
    except Raised as raised:
        return _raised(item, answer, raised)
    letters = ", ".join(item.options)
    if not (isinstance(chosen, str) and len(chosen) < 100):
        return Result.of(item, "todo", said("quiz", letters=letters))
    letter = chosen.strip().lower()
    if letter not in item.options:
        return Result.of(item, "todo", said("no-option", chosen=repr(chosen), letters=letters))
    feedback = Said(item.options[letter][1], f"quiz-{letter}")
    return Result.of(item, "passed", feedback) if letter == item.key else Result.of(item, "wrong", feedback, got=letter)


def _raised(item: Exercise | Quiz, answer: Answer, raised: Raised) -> Result:
    """Return the result of an answer that raised, or is not written yet, or returned what cannot travel."""
    if raised.todo:
        return Result.of(item, "todo", said("todo"))
    if answer.in_notebook and raised.kind == OwnRequestFailed.__name__:
        return Result.of(item, "unjudged", said("own-request", error=raised.message), tried=answer.tried)
    if raised.kind == NOT_PLAIN:
        return Result.of(item, "wrong", said("not-plain", problem=raised.message), tried=answer.tried)
    if raised.kind == NOT_CALLABLE:
        return Result.of(item, "wrong", said("not-callable", value=raised.message, name=item.name))
    if raised.kind == NOT_THERE:
        return Result.of(item, "crashed", said("missing", name=raised.message))
    return Result.of(
        item, "crashed", said("crashed", raised.kind, error=raised), tried=answer.tried, where=raised.where
    )


def _wrong(item: Exercise | Quiz, answer: Answer, words: Said) -> Result:
    return Result.of(item, "wrong", words, tried=answer.tried, got=answer.got, curve=answer.curve)
