"""An instructor's own notebook, without coursekit: its tests follow nbgrader's rules, and what a person grades stays theirs."""

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook

from coursekit.sandbox.nursery import available
from tests.attacks import grade_id
from tests.classes import grade, hand_in, lines
from tests.nbgrader_cells import KERNEL, answer, by_hand, locked, task
from tests.nbgrader_courses import both, course_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")]


def plain_source() -> nbformat.NotebookNode:
    """Return an instructor's own notebook: hidden tests, partial credit, a magic, what a person grades, a file, a locked cell."""
    cells = [
        new_code_cell("from pathlib import Path\nlimit = int(Path('limit.txt').read_text())"),
        locked("helper", "def helper(x):\n    return x + limit", grade=False),
        answer("def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"),
        locked(
            "test_double",
            "assert double(1) == 2\n### BEGIN HIDDEN TESTS\nassert double(7) == 14\n### END HIDDEN TESTS",
            points=2,
        ),
        locked(
            "test_partly",
            "right = [double(x) == 2 * x for x in (1, 2, 3, 4)]\n4 * sum(right) / len(right)  # points",
            points=4,
        ),
        locked("test_with_a_magic", "!true\n2 * (double(2) == 4)  # points", points=2),
        locked("test_helper", "import sys\nassert helper(1) == 6", points=1),
        by_hand(new_markdown_cell("Explain what you did."), "essay", 3),
        task("Draw it below.\n=== BEGIN MARK SCHEME ===\nOne point for each x.\n=== END MARK SCHEME ===", "task", 2),
        by_hand(new_code_cell("# Draw it.\n### BEGIN SOLUTION\nprint('a drawing')\n### END SOLUTION"), "drawing", 2),
    ]
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


def changed(release: Path, **sources: str) -> dict:
    """Return the notebook that was handed out, some of its cells written again."""
    document: dict = json.loads(release.read_text(encoding="utf-8"))
    for cell in document["cells"]:
        cell["source"] = sources.get(grade_id(cell), "".join(cell["source"]))
    return document


RIGHT = "def double(x):\n    return x + x"
STUDENTS = {
    "all_right": {"answer": RIGHT, "essay": "I added it to itself.", "drawing": "print('x x')"},
    "nothing": {},
    "fits_the_visible_test": {"answer": "def double(x):\n    return x + 1 if x == 1 else x * x"},
    "edits_a_locked_cell": {"answer": RIGHT, "helper": "def helper(x):\n    return 0"},
    "edits_a_test": {"answer": "def double(x):\n    return 0", "test_double": "assert True"},
    "does_not_compile": {"answer": "def double(x)\n    return 2 * x", "essay": "I tried."},
}


@pytest.fixture
def plain_course(tmp_path):
    (tmp_path / "course/source/double").mkdir(parents=True)
    (tmp_path / "course/source/double/limit.txt").write_text("5")
    course = course_of(tmp_path / "course", "double", plain_source())
    for student, sources in STUDENTS.items():
        hand_in(course, student, changed(course / "release/double/double.ipynb", **sources), "double")
    return course


def test_an_instructors_own_tests_follow_nbgraders_rules(plain_course):
    ours, theirs = both(plain_course, "double")
    assert ours == theirs
    assert ours["all_right", "test_double"] == (2, False)
    assert ours["fits_the_visible_test", "test_double"] == (0, False)
    assert ours["fits_the_visible_test", "test_partly"] == (2, False)
    assert ours["edits_a_locked_cell", "test_helper"] == (1, False)
    assert ours["all_right", "essay"] == (None, True)
    assert ours["nothing", "essay"] == (0, False)
    assert ours["nothing", "task"] == ours["all_right", "task"] == (None, True)
    assert ours["nothing", "comment on task"] == (None,)
    assert ours["fits_the_visible_test", "test_with_a_magic"] == (2, False)
    assert {
        record["reason"] for record in lines(plain_course / "results.jsonl") if record["student"] == "all_right"
    } == {""}
    assert ours["nothing", "comment on drawing"] == ("No response.",)


def test_the_differences_are_output_on_stderr_partial_credit_that_is_numpys_and_missing_tests(plain_course):
    noisy = changed(
        plain_course / "release/double/double.ipynb",
        answer="import sys\ndef double(x):\n    print('a log line', file=sys.stderr)\n    return 2 * x",
    )
    hand_in(plain_course, "noisy", noisy, "double")
    half = "import numpy as np\ndef double(x):\n    return np.int64(2 * x if x < 3 else 0)"
    hand_in(plain_course, "numpy", changed(plain_course / "release/double/double.ipynb", answer=half), "double")
    without = changed(plain_course / "release/double/double.ipynb", answer=RIGHT)
    without["cells"] = [cell for cell in without["cells"] if grade_id(cell) not in ("essay", "drawing", "test_double")]
    hand_in(plain_course, "deletes", without, "double")
    ours, theirs = both(plain_course, "double")
    assert ours["deletes", "essay"] == ours["deletes", "drawing"] == (None, True)
    assert (ours["deletes", "test_double"], theirs["deletes", "test_double"]) == ((2, False), (None, True))
    assert (ours["noisy", "test_double"], theirs["noisy", "test_double"]) == ((2, False), (0, False))
    assert (ours["numpy", "test_partly"], theirs["numpy", "test_partly"]) == ((2, False), (4, False))
    noise = {("noisy", name) for name in ("test_double", "test_partly", "test_with_a_magic")}
    assert {key for key in ours if ours[key] != theirs[key]} == noise | {
        ("numpy", "test_partly"),
        ("deletes", "test_double"),
    }


def test_what_a_person_has_graded_stays_when_the_class_is_graded_again(plain_course):
    grade(plain_course)
    with Gradebook(f"sqlite:///{plain_course}/gradebook.db") as book:
        mark = book.find_grade("essay", "double", "double", "all_right")
        mark.manual_score, mark.needs_manual_grade = 2.5, False
        book.db.commit()
    grade(plain_course, again=True)
    with Gradebook(f"sqlite:///{plain_course}/gradebook.db") as book:
        assert book.find_grade("essay", "double", "double", "all_right").score == 2.5
        assert book.find_submission("double", "all_right").score == 9 + 2.5


def test_a_late_submission_is_treated_as_the_courses_configuration_says(plain_course):
    with (plain_course / "nbgrader_config.py").open("a") as file:
        file.write('    config.LateSubmissionPlugin.penalty_method = "zero"\n')
    with Gradebook(f"sqlite:///{plain_course}/gradebook.db") as book:
        book.update_or_create_assignment("double", duedate="2026-01-01 12:00:00 UTC")
    for student, when in (("all_right", "2026-01-01 12:00:01 UTC"), ("edits_a_locked_cell", "2026-01-01 11:59:59 UTC")):
        (plain_course / f"submitted/{student}/double/timestamp.txt").write_text(when)
    both(plain_course, "double")
    for course in (plain_course, plain_course.with_name("course-nbgrader")):
        with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
            assert book.find_submission("double", "all_right").total_seconds_late == 1
            late = {entry.student.id: entry.late_submission_penalty for entry in book.assignment_submissions("double")}
        assert (late["all_right"], late["edits_a_locked_cell"]) == (9, 0)
