"""`coursekit grade` and `nbgrader autograde` give honest students the same scores: their gradebooks are compared, cell by cell."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import nbformat
import pytest

from coursekit.author.definitions import defining_cells
from coursekit.basics.paths import NOTEBOOKS, SOLUTIONS
from coursekit.judging.exercise import load
from coursekit.sandbox.nursery import available
from tests.answers import samples
from tests.attacks import code_cell, grade_id
from tests.chapters import CHAPTERS
from tests.classes import hand_in
from tests.nbgrader_courses import both, course_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")]
DEFINITIONS = """def definitions(chapter):
    names = {{"__name__": "__main__"}}
    exec({code!r}, names)
    return names
"""


def names_of(chapter: str) -> str:
    """Return the text of a module of sample answers as a notebook can run it, in a sandbox without solutions too."""
    text = inspect.getsource(import_module(f"tests.answers.{chapter}"))
    if (line := "from coursekit.author.definitions import definitions\n") in text:
        code = "\n".join(map(ast.unparse, defining_cells(chapter)))
        text = text.replace(line, DEFINITIONS.format(code=code))
    return re.sub(r"^(@?(accepts|rejects)\(.*\)|from tests\.answers import .*)\n", "", text, flags=re.MULTILINE)


def answered(chapter: str, answers: dict[str, str]) -> dict:
    """Return a chapter as a student hands it in who answered with these expressions; demos deleted."""
    document: dict = json.loads((NOTEBOOKS / f"{chapter}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in document["cells"] if "demo" not in cell["metadata"].get("tags", [])]
    for cell in cells:
        name = grade_id(cell).removeprefix("answer_")
        if grade_id(cell) != name and name in answers:
            cell["source"] = f"{name} = {answers[name]}"
    first = next(index for index, cell in enumerate(cells) if grade_id(cell).startswith("answer_"))
    codes = {index: "".join(cell["source"]) for index, cell in enumerate(cells[:first]) if cell["cell_type"] == "code"}
    ray = next((index for index, source in codes.items() if re.search(r"^ray\.init\(", source, re.MULTILINE)), None)
    hurry = (
        "from coursekit.ray_bridge import rendezvous\nrendezvous.set_patience(3)\n" if ray is not None else ""
    )  # wrong answers wait in vain
    after = 1 + (min(codes) if ray is None else ray)
    return document | {"cells": [*cells[:after], code_cell(hurry + names_of(chapter)), *cells[after:]]}


def turns(chapter: str, right: bool) -> Iterator[dict[str, str]]:
    """Yield the first wrong (or right) answers of all exercises and quizzes together, then all second ones, …"""
    choices: dict[str, list[str]] = {}
    for sample in samples(chapter):
        if sample.right == right:
            choices.setdefault(sample.exercise, []).append(sample.mistake)
    for item in load(chapter).values():
        if item.kind == "quiz":
            choices[item.name] = [repr(letter) for letter in item.options if (letter == item.key) == right]
    for turn in range(max(map(len, choices.values()))):
        yield {name: answers[min(turn, len(answers) - 1)] for name, answers in choices.items()}


def class_of(course: Path, chapter: str, everything: bool) -> None:
    """Hand in the chapter solved, unsolved and first wrong; or also half solved, and every right and wrong answer of the tests."""
    documents = {"solved": json.loads((SOLUTIONS / f"{chapter}.ipynb").read_text(encoding="utf-8"))}
    right, wrong = list(turns(chapter, True)), list(turns(chapter, False))
    half = {name: (right if index % 2 else wrong)[0][name] for index, name in enumerate(right[0])}
    documents["half"] = answered(chapter, half)
    documents["unsolved"] = json.loads((NOTEBOOKS / f"{chapter}.ipynb").read_text(encoding="utf-8"))
    documents |= {f"wrong{number}": answered(chapter, answers) for number, answers in enumerate(wrong)}
    documents |= {f"right{number}": answered(chapter, answers) for number, answers in enumerate(right)}
    for student in documents if everything else ("solved", "unsolved", "wrong0"):
        hand_in(course, student, documents[student], chapter)


PARAMETERS = [
    pytest.param("ch01_tasks", False, id="ch01_tasks-three"),
    *[pytest.param(name, True, marks=pytest.mark.nightly, id=f"{name}-all") for name in CHAPTERS],
]


@pytest.mark.parametrize(("chapter", "everything"), PARAMETERS)
def test_both_give_honest_students_the_same_scores(chapter, everything, tmp_path):
    course = course_of(tmp_path / "course", chapter, nbformat.read(SOLUTIONS / f"{chapter}.ipynb", as_version=4))
    class_of(course, chapter, everything)
    ours, theirs = both(course, chapter)
    assert ours == theirs
    earned = dict.fromkeys((student for student, _ in ours), 0.0)
    for (student, cell), score in ours.items():
        earned[student] += 0 if cell.startswith("comment") else score[0]
    total = sum(item.points for item in load(chapter).values())
    for student, points in earned.items():
        kind = student.rstrip("0123456789")
        low, high = {"solved": (total, total), "right": (total, total), "half": (1, total - 1)}.get(kind, (0, 0))
        assert low <= points <= high, student
