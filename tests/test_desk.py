"""The instructor's desk: what nbgrader's own tools and ours say of one class agree, and neither undoes the other's work."""

import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from filelock import FileLock
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from typer.testing import CliRunner

from coursekit.basics.errors import CommandError
from coursekit.basics.paths import ROOT
from coursekit.cli import app
from coursekit.grading import check_versions, comments
from coursekit.grading.nbgrader_settings import config_of
from coursekit.grading.student_page import NOT_WRITTEN, write_page
from coursekit.judging import reached_code, wire
from coursekit.judging.answer import Answer
from coursekit.judging.exercise import judge, load
from coursekit.judging.result import Result
from tests.attacks import notebook
from tests.classes import grade, hand_in
from tests.nbgrader_cells import by_hand
from tests.nbgrader_courses import UNPROTECTED, nbgrader
from tests.without_sandbox import cells, no_sandbox, write

pytestmark = pytest.mark.slow
__all__ = ["no_sandbox"]  # every test here grades without one


@pytest.fixture
def course(tmp_path) -> Path:
    """Return a course in which ada's one submission has been graded: 2 of 2 points."""
    shutil.copy(ROOT / "coursekit/author/nbgrader_config.py", tmp_path)
    for folder in ("source/hw1", "submitted/ada/hw1"):
        write(tmp_path / folder / "p1.ipynb", cells())
    grade(tmp_path)
    return tmp_path


def score(course: Path) -> float:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        return float(book.find_submission("hw1", "ada").score)


def page(course: Path) -> str:
    return (course / "reports/ada/hw1/p1.html").read_text()


def row(course: Path) -> dict[str, str]:
    return next(csv.DictReader((course / "grades.csv").open(encoding="utf-8")))


def report(course: Path) -> str:
    shown = CliRunner().invoke(app, ["report", str(course)])
    assert shown.exit_code == 0, shown.output
    return shown.output


# One truth


def test_points_by_hand_a_penalty_and_a_comment_are_on_the_page_and_in_the_table(course):
    assert "<b>2 of 2 points</b>" in page(course)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        mark = book.find_grade("x", "p1", "hw1", "ada")
        mark.manual_score, mark.extra_credit, mark.needs_manual_grade = 1.5, 3, False
        book.find_comment("answer_x", "p1", "hw1", "ada").manual_comment = "Name it <better>."
        book.find_submission_notebook("p1", "hw1", "ada").late_submission_penalty = 1
        book.db.commit()
    assert report(course).startswith("wrote 1 page in ")
    assert "<b>3.5 of 2 points, after 1 less for being late</b>" in page(course)
    assert "x: passed, 4.5 of 2 points" in page(course)
    assert "By hand: 4.5 points; the check gave 2." in page(course)
    assert "Name it &lt;better&gt;." in page(course)
    found = row(course)
    assert (found["score"], found["max_score"], found["penalty"], found["to_grade"]) == ("3.5", "2", "1", "0")
    nbgrader_says = NbGraderAPI(CourseDirectory(config=config_of(course))).get_submission("hw1", "ada")["score"]
    assert nbgrader_says == 3.5 + 1  # which formgrader shows before the penalty


def test_the_page_says_when_it_was_due_and_handed_in(course):
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_assignment("hw1").duedate = datetime(2026, 1, 2, 5)
        book.find_submission("hw1", "ada").timestamp = datetime(2026, 1, 2, 3, 4)
        book.db.commit()
    report(course)
    assert re.search(r"due on 2026-01-0\d at \d\d:00 · handed in on 2026-01-0\d at \d\d:04", page(course))


def test_what_a_person_gave_stays_when_it_is_graded_again_and_all_agree_at_once(course):
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_grade("x", "p1", "hw1", "ada").manual_score = 1
        book.db.commit()
    grade(course, again=True)
    assert (score(course), row(course)["score"], row(course)["to_grade"]) == (1, "1", "1")  # nbgrader has it looked at
    assert "1 of 2 points, and 1 answer waiting for a person to grade" in page(course)


def test_a_comment_is_shown_where_the_student_lost_the_answers_id(course):
    document = cells(1)
    del document.cells[0].metadata["nbgrader"]
    write(course / "submitted/ada/hw1/p1.ipynb", document)
    grade(course)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_comment("answer_x", "p1", "hw1", "ada").manual_comment = "Still for you."
        book.db.commit()
    report(course)
    assert "Still for you." in page(course)
    assert "<span>x = 1" in page(course)


def test_an_answer_that_a_person_grades_stands_on_the_page_with_its_points_and_comment(course):
    document = cells()
    document.cells.append(by_hand(new_markdown_cell("Because."), "essay", 3))
    write(course / "source/hw2/p1.ipynb", document)
    document.cells[-1].source = "Because *I* say so."
    write(course / "submitted/ada/hw2/p1.ipynb", document)
    grade(course)
    found = course / "reports/ada/hw2/p1.html"
    assert "essay: waiting for a person to grade it" in found.read_text()
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        mark = book.find_grade("essay", "p1", "hw2", "ada")
        mark.manual_score, mark.needs_manual_grade = 2, False
        book.find_comment("essay", "p1", "hw2", "ada").manual_comment = "Says who?"
        book.db.commit()
    report(course)
    assert "essay: 2 of 3 points, graded by hand" in found.read_text()
    assert all(text in found.read_text() for text in ("Because *I* say so.", "Says who?", "<b>4 of 5 points</b>"))


def test_a_page_shows_the_answer_and_tells_times_by_the_clock_of_the_class(course):
    (course / "class.toml").write_text('zone = "Asia/Kolkata"\n')
    write(course / "submitted/ada/hw1/p1.ipynb", cells(1))
    (course / "submitted/ada/hw1/timestamp.txt").write_text("2026-11-20 20:00:00 UTC")
    grade(course)
    assert re.search(r"handed in on 2026-11-21 at 01:30 · graded on \d{4}-\d\d-\d\d at \d\d:\d\d", page(course))
    assert "(Asia/Kolkata)" in page(course)
    assert "<pre class='code'><span>x = 1" in page(course)
    report(course)
    assert "handed in on 2026-11-21 at 01:30" in page(course)


def test_a_page_names_the_student_as_the_roster_does(course):
    (course / "class.toml").write_text('students = [{id = "ada", name = "Ada <Lovelace>"}]\n')
    report(course)
    assert "Ada &lt;Lovelace&gt; (ada) · " in page(course)


def test_the_folder_of_the_course_is_not_taken_for_that_of_its_hand_ins(course):
    shown = CliRunner().invoke(app, ["grade", str(course), "--no-sandbox"])
    assert shown.exit_code == 1
    assert f"coursekit grade {course / 'submitted'}" in shown.output.replace("\n", "")
    assert not (course.parent / "results.jsonl").exists()


def test_a_course_in_which_nothing_was_graded_is_told_the_command(tmp_path):
    shown = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert (shown.exit_code, "coursekit grade" in shown.output) == (1, True)


def test_a_page_shows_what_a_quiz_asked_and_which_option_was_chosen(tmp_path):
    name = "what_distribution_costs"
    quiz = {
        "chapter": "ch00_start",
        "name": name,
        "kind": "quiz",
        "status": "wrong",
        "points": 1,
        "message_id": "quiz-a",
    }
    record = {"student": "ada", "assignment": "ch00_start", "notebook": "ch00_start", "outcome": "graded", "notes": []}
    record |= {"score": 0, "max_score": 1, "when": "2026-11-23T10:00:00+0000", "results": {name: quiz}}
    write_page(tmp_path / "ada.html", record, None, None)
    item = load("ch00_start")[name]
    shown = (tmp_path / "ada.html").read_text()
    assert "Which of these gets <em>harder</em>?" in shown
    assert f"<li class=here>a) {item.options['a'][0]}</li>" in shown
    assert shown.count("<li") == len(item.options)


def test_a_page_says_of_a_quiz_that_does_not_count_and_has_no_answer_what_it_is(tmp_path):
    todo = Result("ch00_start", "what_distribution_costs", "quiz", "todo", 0, "Write your answer above.", "todo")
    tests = {status: Result("", status, "test", status, 1).as_dict() for status in ("crashed", "wrong", "passed")}
    record = {"student": "ada", "assignment": "ch00_start", "notebook": "ch00_start", "outcome": "graded", "notes": []}
    record |= {
        "score": 0,
        "max_score": 1,
        "when": "2026-11-23T10:00:00+0000",
        "results": {todo.name: todo.as_dict()} | tests,
    }
    write_page(tmp_path / "ada.html", record, None, None)
    shown = (tmp_path / "ada.html").read_text()
    assert "what_distribution_costs: not attempted, not counted" in shown
    assert NOT_WRITTEN in shown
    assert "above" not in shown
    assert "1 passed, 1 wrong, 1 crashed, 1 not attempted" in shown  # in whatever order they came


def test_a_page_says_what_a_call_stands_for_where_its_arguments_say_nothing():
    def ask(request: bytes) -> bytes:
        function, xs = wire.decode(request, functions=True)["args"]
        return wire.encode({"value": [function(x) for x in xs] if isinstance(xs[0], int) else [False, True]})

    said = judge(load("ch01_tasks")["parallel_map"], Answer("parallel_map", ask, lambda *window: None))
    assert said.tried.startswith("six calls: the first one waits until the last one has started")


# Comments that are written once


def said_of(course: Path, status: str, message_id: str, **more: str) -> None:
    """Let the last outcome of the course be another: the answer ended at a message of chapter 1."""
    path = course / "results.jsonl"
    record = json.loads(path.read_text().splitlines()[-1])
    record["results"]["x"] |= {"chapter": "ch01_tasks", "status": status, "message_id": message_id} | more
    path.write_text(path.read_text() + json.dumps(record) + "\n")


def test_a_comment_written_once_reaches_all_whose_answers_end_at_its_message(course):
    (course / "comments.toml").write_text('[ch01_tasks.x]\nabc123 = "Launch first."\n')
    said_of(course, "wrong", "abc123")
    report(course)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        comment = book.find_comment("answer_x", "p1", "hw1", "ada")
        assert comment.comment == "Launch first."
        assert "<div class='said'><p>Launch first.</p></div>" in page(course)
        comment.manual_comment = "For you alone."
        book.db.commit()
    report(course)
    assert "For you alone." in page(course)
    assert "Launch first." not in page(course)
    said_of(course, "wrong", "def456")
    report(course)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        assert book.find_comment("answer_x", "p1", "hw1", "ada").auto_comment is None


def test_a_comment_is_there_as_soon_as_it_is_graded(course, monkeypatch):
    monkeypatch.setattr(
        "coursekit.grading.class_run.fitting", lambda comments, line: {"answer_x": comments["a", "b", "c"]}
    )
    (course / "comments.toml").write_text('[a.b]\nc = "At once."\n')
    grade(course, again=True)
    assert "At once." in page(course)


@pytest.mark.parametrize(("text", "named"), [("a = 1", "a must be"), ("[a]\nb = 1", "a.b"), ("[a.b]\nc = 1", "a.b.c")])
def test_a_comment_of_another_form_is_named(tmp_path, text, named):
    (tmp_path / "comments.toml").write_text(text)
    with pytest.raises(CommandError, match=f"comments.toml: {named}"):
        comments.load(tmp_path)


# The class's page


def class_page(course: Path) -> str:
    shown = CliRunner().invoke(app, ["class", str(course)])
    assert (shown.exit_code, "class.html" in shown.output) == (0, True), shown.output
    return (course / "class.html").read_text()


def test_the_classs_page_says_what_came_of_each_exercise_and_who_handed_in_nothing(course):
    for student in ("bob", "cyd"):
        write(course / f"submitted/{student}/hw1/p1.ipynb", cells())
    (course / "submitted/dan/hw1").mkdir(parents=True)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.add_student("eve", first_name="Eve", last_name="<Li>")
    grade(course)
    write(course / "submitted/bob/hw1/p1.ipynb", cells(1))  # handed in again
    grade(course)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_grade("x", "p1", "hw1", "cyd").manual_score = 0.5
        book.db.commit()
    shown = class_page(course)
    assert "5 students, 1 notebook" in shown
    assert "3 of 5 students graded · median 2 of 2 points" in shown
    assert "1 handed in more than once" in shown
    assert "3 passed</span>" in shown
    assert "<td class=number>1.5 of 2</td>" in shown
    assert "<dd>dan: no notebook was handed in</dd>" in shown
    assert "<dd>1: eve (Eve &lt;Li&gt;)</dd>" in shown


def test_the_classs_page_counts_messages_by_id_with_an_example_and_the_comment_on_it(course):
    (course / "comments.toml").write_text('[ch01_tasks.x]\nabc123 = "Launch <first>."\n')
    said_of(course, "wrong", "abc123", message="Does `f` wait?", tried="x(<1>)", where="line 1: `f`")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_grade("x", "p1", "hw1", "ada").auto_score = 0
        book.db.commit()
    shown = class_page(course)
    assert re.search(
        r"1 ×.*abc123.*Does <code>f</code> wait\?.*Tried <code>x\(&lt;1&gt;\).*Launch &lt;first&gt;", shown
    )
    assert "Look at line 1: <code>f</code>" in shown
    assert "The hardest" not in shown  # one hand-in says nothing of a class


@pytest.mark.parametrize("command", ["class", "report", "grades", "similar", "give-back"])
def test_who_names_the_folder_submitted_is_told_the_courses(course, command):
    grade(course)
    refused = CliRunner().invoke(app, [command, str(course / "submitted")])
    assert refused.exit_code == 1
    assert refused.output.endswith(f"instead: {os.path.relpath(course)}\n")


# Formgrader's button


def test_formgraders_button_runs_nothing_and_names_the_command(course, monkeypatch):
    (course / "submitted/ada/hw1/p1.ipynb").unlink()
    write(course / "submitted/ada/hw1/p1.ipynb", cells()).write_text("{}")  # which nbgrader could not even read
    before = {path: path.read_bytes() for path in course.glob("autograded/**/*.ipynb")}
    config = config_of(course)
    said = NbGraderAPI(CourseDirectory(config=config), config=config).autograde("hw1", "ada")
    assert not said["success"]
    assert f"in {course}: `coursekit grade submitted --only ada/hw1`" in said["log"]
    assert {path: path.read_bytes() for path in course.glob("autograded/**/*.ipynb")} == before
    assert score(course) == 2


def test_nbgraders_own_command_refuses_too_unless_it_is_told_to_run_what_was_handed_in(course):
    with pytest.raises(AssertionError, match="--only hw1"):
        nbgrader(course, "autograde", "hw1", "--force")
    assert score(course) == 2
    nbgrader(course, "autograde", "hw1", "--force", UNPROTECTED)


# One edition of the checks


@pytest.fixture
def chapter(tmp_path, monkeypatch) -> Path:
    """Return a project with one chapter, whose checks may be changed."""
    (tmp_path / "coursekit/exercises").mkdir(parents=True)
    (tmp_path / "coursekit/given").mkdir()
    for name in ("exercises/ch00_start.py", "given/ch00_start.py"):
        shutil.copy(ROOT / "coursekit" / name, tmp_path / "coursekit" / name)
    monkeypatch.setattr(check_versions, "ROOT", tmp_path)
    monkeypatch.setattr(reached_code, "PACKAGE", tmp_path / "coursekit")
    return tmp_path / "coursekit/exercises/ch00_start.py"


def change(path: Path, old: str, new: str) -> list[str]:
    """Change a check's source, and return the names of the checks that are others now."""
    before, text = check_versions.checks("ch00_start"), path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    reached_code._module.cache_clear()
    return [name for name, found in check_versions.checks("ch00_start").items() if found != before[name]]


@pytest.fixture(autouse=True)
def as_it_is() -> Iterator[None]:
    """Read no module as another test has changed it."""
    reached_code._module.cache_clear()
    yield
    reached_code._module.cache_clear()


def test_a_check_is_another_when_what_judges_has_changed_and_not_for_a_hint_or_a_comment(chapter):
    assert change(chapter, "    minutes=", "    # why\n    minutes=1 + ") == []
    assert change(chapter, '"""', '"""Now: ') == []
    assert change(chapter, "rng.integers(", "1 + rng.integers(") == ["best_seconds"]
    assert change(chapter, "*c)", "*d)") == ["what_distribution_costs"]


def test_where_a_check_has_changed_nothing_is_graded_unless_everybody_is_graded_again(chapter, tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    check_versions.expect_the_same(folder, {"ch00_start"}, False)  # a course that was not released by coursekit
    check_versions.expect_the_same(folder, {"ch00_start"}, False)
    change(chapter, "rng.integers(", "1 + rng.integers(")
    with pytest.raises(CommandError, match=r"ch00_start: best_seconds\n.*\n.*unpack the learners.zip"):
        check_versions.expect_the_same(folder, {"ch00_start"}, False)
    check_versions.expect_the_same(folder, {"ch00_start"}, True)
    check_versions.expect_the_same(folder, {"ch00_start"}, False)


def test_the_way_back_is_the_commit_and_none_where_checks_are_not_committed(chapter, tmp_path, tmp_path_factory):
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    folder = tmp_path_factory.mktemp("course")
    check_versions.record(folder, {"ch00_start"})
    released = check_versions.commit()
    assert len(released) == 10
    change(chapter, "rng.integers(", "1 + rng.integers(")
    with pytest.raises(CommandError, match=f"`git -C {tmp_path} checkout {released}`; then run the same command"):
        check_versions.expect_the_same(folder, {"ch00_start"}, False)
    assert check_versions.commit() == ""


def test_coursekit_grade_refuses_to_judge_one_class_by_two_editions(tmp_path, monkeypatch):
    hand_in(tmp_path, "ada", notebook())
    grade(tmp_path)
    hand_in(tmp_path, "bob", notebook())
    monkeypatch.setattr(check_versions, "checks", lambda chapter: {"best_seconds": "another"})
    for options in ({}, {"again": True, "only": ("ada",)}):
        with pytest.raises(CommandError, match="best_seconds"):
            grade(tmp_path, **options)
    assert len(grade(tmp_path, again=True)) == 2


def test_a_run_that_is_refused_changes_no_edition(tmp_path, monkeypatch):
    hand_in(tmp_path, "ada", notebook())
    grade(tmp_path)
    before = (tmp_path / check_versions.FILE).read_text()
    monkeypatch.setattr(check_versions, "checks", lambda chapter: {"best_seconds": "another"})
    with FileLock(tmp_path / ".coursekit-run.lock"), pytest.raises(CommandError, match="is running in"):
        grade(tmp_path, again=True)
    assert (tmp_path / check_versions.FILE).read_text() == before
