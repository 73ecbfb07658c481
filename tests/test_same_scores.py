"""`coursekit grade` and `nbgrader autograde` give honest students the same scores: their gradebooks are compared, cell by cell.

So do `coursekit grade` and `coursekit grade`, of the same answers in another language.
"""

import ast
import inspect
import json
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import nbformat
import pytest

from coursekit.author.definitions import defining_cells
from coursekit.basics.paths import NOTEBOOKS, ROOT, SOLUTIONS
from coursekit.judging.exercise import load
from coursekit.machine import copies
from coursekit.machine.update import switch
from coursekit.sandbox.nursery import available
from tests.answers import samples
from tests.attacks import code_cell, grade_id
from tests.chapters import CHAPTERS
from tests.classes import grade, hand_in
from tests.nbgrader_courses import LIMITS, both, course_of

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


ANSWERS = {
    "answer_as_task": "def as_task(function, x):\n    return function(x)",
    "answer_when_remote_returns": "when_remote_returns = 'b'",
    "answer_parallel_map": "def parallel_map(function, xs):\n    task = ray.remote(function)\n    return ray.get([task.remote(x) for x in xs])",
    "answer_order_of_get": "order_of_get = 'a'",
    "answer_first_k": "def first_k(function, xs, k):\n    return results[:k]",
    "answer_tree_sum": "def tree_sum(add, refs):\n    return ray.remote(add).remote(*refs)",
    "answer_batched": "def batched(function, xs, size):\n    return list(map(function, xs))",
    "answer_tiny_tasks": "tiny_tasks = 'z'",
}


def copy_in(language: str, folder: Path) -> dict:
    """Return a learner's copy of Chapter 1 in this language, with these answers; demos deleted."""
    (folder / "notebooks").mkdir(parents=True)
    shutil.copy(NOTEBOOKS / "ch01_tasks.ipynb", folder / "notebooks")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "locale").symlink_to(ROOT / "locale")
    copies.fill(folder)
    switch(folder, language)
    document: dict = json.loads((folder / "work/ch01_tasks.ipynb").read_text(encoding="utf-8"))
    for cell in document["cells"]:
        cell["source"] = ANSWERS.get(grade_id(cell), cell["source"])
    return document | {"cells": [cell for cell in document["cells"] if "demo" not in cell["metadata"].get("tags", [])]}


def test_a_german_copy_is_graded_as_the_english_one(tmp_path):
    english, german = (copy_in(language, tmp_path / language) for language in ("en", "de"))
    assert "".join(german["cells"][0]["source"]).startswith("# Kapitel 1")
    assert json.dumps([cell["metadata"] for cell in german["cells"]]) == json.dumps(
        [cell["metadata"] for cell in english["cells"]]
    )
    hand_in(tmp_path / "course", "english", english, "ch01_tasks")
    hand_in(tmp_path / "course", "german", german, "ch01_tasks")
    records = grade(tmp_path / "course", limits=LIMITS)
    ours, theirs = (records[f"{student}/ch01_tasks/ch01_tasks"] for student in ("german", "english"))
    assert (ours["score"], ours["max_score"], ours["reason"]) == (theirs["score"], theirs["max_score"], "")
    results, as_english = (
        {name: [result[key] for key in ("status", "earned", "message_id")] for name, result in each["results"].items()}
        for each in (ours, theirs)
    )
    assert results == as_english
    assert {status for status, *_ in results.values()} == {"passed", "wrong", "crashed", "todo"}
