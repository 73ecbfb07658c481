"""A review: three questions or small exercises from other chapters that are due, in five minutes.

It changes nothing but the days of the next reviews: it earns nothing, and a room does not hear of it.
"""

import random
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from coursekit.basics.cards import Note, plural
from coursekit.basics.readers_language import told, told_markdown
from coursekit.judging.exercise import find
from coursekit.judging.result import COLOURS, SIGNS, WORDS
from coursekit.learner import shell
from coursekit.learner.checks import HINTS, missing, result_of
from coursekit.learner.review_schedule import AT_ONCE, Item, answered, due_items, is_question, questions, today
from coursekit.learner.session import current
from coursekit.learner.small_exercises import plain, small_exercises

STUB_BELOW = "Its stub is in the cell below."
UNKNOWN = "-"  # for a question that a learner cannot answer
NOTHING_DUE = Note(
    "Nothing is due",
    "What you pass comes back for a review 1, 7, and 30 days later, and the day after a mistake in a review.",
)
Asked = Mapping[Item, Mapping[str, str]]  # the letters of each question, and its author's


def review(answer: Any = None) -> Note:
    """Show what is due, up to three questions and small exercises of other chapters, or take your answers: `review("b a c")`.

    `review("td_target")` puts the stub of an exercise that is due into a new cell, and `review(td_target)` checks what you wrote.
    """
    session = current()
    if answer is None:
        items = _drawn(session.chapter)
        session.asked = {item: _options(item) for item in items if is_question(item)}
        return _card(items)
    name = answer if isinstance(answer, str) else getattr(answer, "__name__", "")
    exercise = next((item for item in _exercises(session.chapter) if item.name == name), None)
    if exercise:
        return _stub(exercise) if answer is name else _checked(exercise, answer)
    if not isinstance(answer, str):
        return Note(f"{name or 'This'} is not due", "Run `review()` to see what is.")
    return _marked(answer)


def ask(read: Callable[[str], str] = input, say: Callable[[object], object] = print) -> None:
    """Ask up to three questions that are due in a terminal, one after the other, until the input ends."""
    items = list(islice(filter(is_question, due_items()), AT_ONCE))
    say(told(f"{plural(len(items), 'question')}. Press Enter if you don't know.") if items else NOTHING_DUE)
    for number, item in enumerate(items, 1):
        options = _options(item)
        say(f"\n{_question(number, item, options)}")
        try:
            while (letter := read(told("Your letter: ")).strip().casefold()) not in ("", *options):
                say(told(f"The options are {', '.join(options)}."))
        except EOFError:
            return
        say(_feedback(item, options.get(letter))[1])


def _drawn(chapter: str) -> list[Item]:
    """Return what a review in a chapter's notebook asks, at most one exercise, which comes last and can be checked now."""
    others = [item for item in due_items() if item.chapter != chapter]
    checkable = (item for item in _exercises(chapter) if not missing(small_exercises(item.chapter)[item.name].needs))
    exercises = list(islice(checkable, 1))
    few = [item for item in others if is_question(item) or item in exercises][:AT_ONCE]
    return sorted(few, key=lambda item: item in exercises)


def _exercises(chapter: str) -> list[Item]:
    """Return the exercises that are due and can be written in a chapter's notebook."""
    due = (item for item in due_items() if item.chapter != chapter and not is_question(item))
    return [item for item in due if small_exercises(item.chapter)[item.name].fits(chapter)]


def _card(items: Sequence[Item]) -> Note:
    if not items:
        return NOTHING_DUE
    asked = current().asked
    parts = [_question(number, item, options) for number, (item, options) in enumerate(asked.items(), 1)]
    if asked:
        example = " ".join("abc"[: len(asked)])
        parts.append(
            f'Answer in this cell, `review("{example}")`, and run it again. Write a dash where you don\'t know.'
        )
    parts += [
        f'Write `{item.name}` of Chapter {_of(item)} again: `review("{item.name}")` puts its stub into a cell below.'
        for item in items
        if item not in asked
    ]
    return Note("From earlier chapters, in five minutes", "\n\n".join(parts), HINTS)


def _of(item: Item) -> int:
    return int(item.chapter[2:4])


def _question(number: int, item: Item, options: Mapping[str, str]) -> str:
    question, said, _ = questions(item.chapter)[item.name]
    shown = [f"{letter}) {told(said[own][0], item.chapter)}" for letter, own in options.items()]
    chapter = told(f"Chapter {_of(item)}")
    return f"{number}. {told(question, item.chapter)} ({chapter})\n" + textwrap.indent("\n".join(shown), "   ")


def _options(item: Item) -> dict[str, str]:
    """Return the letters of a question's options, each with its author's letter: they come in another order each day."""
    letters = list(questions(item.chapter)[item.name][1])
    return dict(zip(letters, random.Random(f"{item} {today()}").sample(letters, len(letters)), strict=True))


def _marked(text: str) -> Note:
    """Return what to say of the letters for the questions that this notebook has shown; where it has shown none, show them."""
    session = current()
    asked, letters = session.asked, "".join(text.casefold().split())
    if not asked:
        card = review()
        return card if session.asked or card is NOTHING_DUE else replace(card, title="No question is due")
    if wrong := _misfit(asked, letters):
        return Note("Not taken", f"{text!r} does not fit: {wrong}", COLOURS["wrong"])
    session.asked = {}
    right, parts = [], []
    for number, (letter, (item, options)) in enumerate(zip(letters, asked.items(), strict=True), 1):
        is_right, said = _feedback(item, options.get(letter))
        right.append(is_right)
        parts.append(f"{_question(number, item, {letter: options[letter]} if letter in options else {})}\n{said}")
    more = "\n\nMore is due: run `review()` again, now or another day." if _drawn(session.chapter) else ""
    colour = COLOURS["passed" if all(right) else "crashed"]
    return Note(f"{sum(right)} of {len(asked)} right", "\n\n".join(parts) + more, colour)


def _misfit(asked: Asked, letters: str) -> str:
    """Return what is wrong with somebody's letters, "" where nothing is."""
    if len(letters) != len(asked):
        return f"write {plural(len(asked), 'letter')}, one for each question, or a dash where you don't know."
    for number, (letter, options) in enumerate(zip(letters, asked.values(), strict=True), 1):
        if letter not in (*options, UNKNOWN):
            return f"question {number} has the options {', '.join(options)}."
    return ""


def _feedback(item: Item, chosen: str | None) -> tuple[bool, str]:
    """Keep the choice of an option, by its author's letter, and return whether it is right, and what it answers back."""
    _, options, key = questions(item.chapter)[item.name]
    right = chosen == key
    said = told(options[chosen][1], item.chapter) if chosen else told(f"Chapter {_of(item)} explains it.")
    return right, f"{SIGNS['passed' if right else 'wrong']} {item.name}: {said} {told(answered(item, right))}"


def _stub(item: Item) -> Note:
    exercise = small_exercises(item.chapter)[item.name]
    shell.put_below(f"{exercise.cell()}\n\nreview({item.name})")
    task = plain(told_markdown(exercise.task, item.chapter))
    return Note(f"{item.name}, from Chapter {_of(item)}", f"{task}\n\n{STUB_BELOW}", HINTS)


def _checked(item: Item, answer: object) -> Note:
    """Return what came of an exercise, checked with the day's own inputs; until it passes, it stays due."""
    result = result_of(find(*item, "exercise"), answer, seed=today().toordinal())
    lines = [result.shown_message(), *(f"{label}: `{text}`" for label, text in result.details())]
    lines.append(answered(item, True) if result.status == "passed" else "It stays due until it passes.")
    sign = SIGNS.get(result.status, "")
    title = f"{sign} {item.name}: {told(WORDS.get(result.status, result.status))}".strip()
    return Note(title, "\n".join(filter(None, lines)), COLOURS.get(result.status, COLOURS["todo"]))
