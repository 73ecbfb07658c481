"""Ten questions for the beginning and the end of a workshop, from the course's quizzes: a learner answers all in one line."""

import textwrap

from coursekit.basics.cards import Note
from coursekit.basics.paths import PACKAGE
from coursekit.basics.readers_language import told
from coursekit.judging import quiz_text
from coursekit.learner.workshop import attendance, connection, outbox

QUESTIONS = (
    ("ch00_start", "what_distribution_costs"),
    ("ch01_tasks", "when_remote_returns"),
    ("ch01_tasks", "order_of_get"),
    ("ch01_tasks", "tiny_tasks"),
    ("ch07_environments", "seed_every_episode"),
    ("ch07_environments", "sixteen_cores"),
    ("ch08_rollouts", "amdahls_limit"),
    ("ch12_env_runners", "how_rllib_uses_ray"),
    ("ch12_env_runners", "twice_the_runners"),
    ("ch12_env_runners", "why_in_turn"),
)
UNKNOWN = "-"  # for a question that a learner cannot answer
HOW = """\
Answer all ten in one line, with a dash where you don't know. It's not a test of you, and nothing is marked:
  ten_questions("{example}")"""
SHAPE = "You wrote {letters!r}. Write ten letters, one for each question, or a dash where you don't know. {detail}"
THANKS = "Your instructor shows the results later. To change an answer, send all ten again: the last line counts."


def ten_questions(letters: str = "") -> Note:
    """Show the ten questions, or send your answers to the room, as in `ten_questions("bca-cabbca")`."""
    if not letters:
        return Note("Ten questions", f"{in_words()}\n\n{HOW.format(example='bca-cabbca')}")
    chosen = "".join(letters.casefold().split())
    if wrong := _misfit(chosen):
        return Note("Not sent", SHAPE.format(letters=letters, detail=wrong), "#dc2626")
    if not connection.joined():
        return connection.OUTSIDE
    missing = outbox.send(outbox.event("ten", attendance.chapter(), line=chosen))
    if missing:
        return Note("Your answers are not in the room yet", missing, "#64748b")
    return Note("Your answers are in the room", THANKS, "#7c3aed")


def all_ten() -> list[quiz_text.Question]:
    """Return the questions with their options and keys, in order."""
    of_chapter = {chapter: quiz_text.read(PACKAGE / f"exercises/{chapter}.py") for chapter, _ in QUESTIONS}
    return [of_chapter[chapter][name] for chapter, name in QUESTIONS]


def in_words() -> str:
    """Return the questions with their options as text."""
    parts = []
    for number, ((chapter, _), (question, options, _)) in enumerate(zip(QUESTIONS, all_ten(), strict=True), 1):
        lines = [f"{letter}) {told(option, chapter)}" for letter, (option, _) in options.items()]
        parts.append("\n".join([f"{number}. {told(question, chapter)}", textwrap.indent("\n".join(lines), "   ")]))
    return "\n\n".join(parts)


def _misfit(chosen: str) -> str:
    """Return what is wrong with somebody's letters, "" where nothing is."""
    if len(chosen) != len(QUESTIONS):
        return f"These are {len(chosen)}."
    for number, (letter, (_, options, _)) in enumerate(zip(chosen, all_ten(), strict=True), 1):
        if letter not in (*options, UNKNOWN):
            return f"Question {number} has the options {', '.join(options)}, and {letter!r} is none of them."
    return ""
