"""The board speaks of mistakes in words: of every message that a check can end with, never its id."""

import re

import pytest

from coursekit.judging import message_ids
from coursekit.judging.exercise import load
from coursekit.room.mistake_words import COMMON, EXERCISES, words
from tests.chapters import CHAPTERS

NEITHER_WRONG_NOR_CRASHED = {"todo", "no-ray", "small-ray", "few-nodes", "unjudged", "own-request"}
NEITHER_WRONG_NOR_CRASHED |= {"interrupted", "interrupted-elsewhere"}
IN_GRADING = {"cell-failed", "cell-no-python", "stopped", "not-reached", "own-test"}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_message_of_a_chapter_has_words(chapter):
    for path in (EXERCISES / f"{chapter}.py", *EXERCISES.glob("_*.py")):
        for key in message_ids.templates(str(path)):
            said = words(chapter, "", key)
            assert key not in said
            assert re.search(r"\w{3}", said)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_option_of_a_quiz_stands_with_its_text(chapter):
    for quiz in (item for item in load(chapter).values() if item.kind == "quiz"):
        for letter, (text, _) in quiz.options.items():
            assert words(chapter, quiz.name, f"quiz-{letter}") == f"{letter}) {text}"


def test_every_message_of_the_framework_that_the_board_may_show_has_words():
    assert set(COMMON) == set(message_ids.FRAMEWORK) - NEITHER_WRONG_NOR_CRASHED - IN_GRADING


@pytest.mark.parametrize(
    ("name", "key", "expected"),
    [
        ("parallel_map", "hsad44", "waits in the loop"),  # from the answers in tests/
        ("as_task", "unbjyp", "“The task didn't return what the function returns for …”"),  # from no answer
        ("as_task", "crashed-KeyError", "the code raised KeyError"),
        ("as_task", "crashed", "the code raised an exception"),
        ("parallel_map", "not-plain", "what came back is not plain data (for example: returns references)"),
        ("as_task", "zzzzzz", "a message that this copy of the course does not have (zzzzzz)"),
    ],
)
def test_a_mistake_in_words(name, key, expected):
    assert words("ch01_tasks", name, key) == expected
