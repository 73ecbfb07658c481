"""`class.toml`: the roster, the dates, the late rule and what counts; a bad entry is an error that names file, entry and reason."""

import csv
import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import nbformat
import pytest
from nbgrader.api import Gradebook

from coursekit.basics.cards import plural
from coursekit.basics.dates import due_line, in_words
from coursekit.basics.errors import CommandError
from coursekit.basics.paths import NOTEBOOKS, ROOT
from coursekit.grading.class_run import Run
from coursekit.grading.class_settings import Late, Student, settings_of
from coursekit.grading.desk import grade_command
from coursekit.grading.desk.announce import CLASS_TOML, announced
from coursekit.grading.desk.grade_command import report_class
from coursekit.grading.gradebook import Book
from coursekit.grading.grading_plan import plan, points_of
from coursekit.grading.nbgrader_settings import Course
from coursekit.grading.outcome import Options
from coursekit.grading.submission import chapter_of
from coursekit.learner.checks import check, hint, quiz, solution
from coursekit.learner.overview import overview
from coursekit.learner.session import begin
from coursekit.machine.copies import as_built
from tests.attacks import notebook
from tests.classes import grade
from tests.without_sandbox import cells, no_sandbox, write

pytestmark = pytest.mark.slow
__all__ = ["no_sandbox"]  # every test here grades without one

WHOLE = """
zone = "Europe/Berlin"
quizzes = true
help = ["hints"]

[due]
ch01_tasks = 2026-10-19T18:00:00
ch02_objects = 2026-10-26T23:59:00-04:00
ch03_actors = 2026-11-02

[late]
percent_a_day = 10
grace_hours = 2
days = 5

[extensions.ada]
ch01_tasks = 2026-10-21T18:00:00

[[students]]
id = "ada"
name = "Ada Lovelace"
email = "ada@example.org"
group = "Blue"
canvas = "11"
"""


@pytest.fixture
def course(tmp_path) -> Path:
    """A course whose assignments are the chapters."""
    return tmp_path


def written(course: Path, text: str) -> Path:
    (course / "class.toml").write_text(text, encoding="utf-8")
    return course


def test_every_entry_is_read(course):
    found = settings_of(written(course, WHOLE))
    berlin = ZoneInfo("Europe/Berlin")
    assert found.students == (Student("ada", "Ada Lovelace", "ada@example.org", "Blue", "11"),)
    assert found.due["ch01_tasks"] == datetime(2026, 10, 19, 18, tzinfo=berlin)
    assert found.due["ch02_objects"].isoformat() == "2026-10-26T23:59:00-04:00"
    assert found.due["ch03_actors"] == datetime(2026, 11, 2, 23, 59, 59, tzinfo=berlin)
    assert found.extensions == {("ada", "ch01_tasks"): datetime(2026, 10, 21, 18, tzinfo=berlin)}
    assert found.late == Late(percent_a_day=10, grace_hours=2, days=5)
    assert (found.quizzes, found.help) == (True, {"hints"})


def test_without_the_file_there_is_no_class(course):
    found = settings_of(course)
    assert not found.is_there
    assert (found.students, found.due, found.late) == ((), {}, None)


def test_the_roster_may_be_a_table_beside_it(course):
    (course / "roster.csv").write_text("\ufeffid;name;email;section\r\n007;Ada Lovelace;ada@example.org;A\r\n", "utf-8")
    assert settings_of(written(course, 'students = "roster.csv"')).students == (
        Student("007", "Ada Lovelace", "ada@example.org"),
    )


@pytest.mark.parametrize(
    ("text", "entry", "reason"),
    [
        ("due = [", "", "cannot be read"),
        ("quizes = true", "quizes", "Did you mean quizzes?"),
        ("quizzes = 1", "quizzes", "not true or false"),
        ('language = "fr"', "language", "no translation into 'fr'"),
        ('zone = "Berlin"', "zone", "no zone 'Berlin'"),
        ('zone = "../../etc/passwd"', "zone", "no zone"),
        ("due = 2026-10-19", "due", "it must be a table"),
        ("[due]\nch1_tasks = 2026-10-19", "due.ch1_tasks", "has no zone"),
        ('zone = "UTC"\n[due]\nch1_tasks = 2026-10-19', "due.ch1_tasks", "Did you mean ch01_tasks?"),
        ('[due]\nch01_tasks = "tomorrow"', "due.ch01_tasks", "is not a date"),
        ('help = ["hint"]', "help", "Did you mean hints?"),
        ("[late]\ndays = 3", "late", "percent_a_day is missing"),
        ("[late]\npercent_a_day = -1", "late.percent_a_day", "not a number from 0 to 10,000"),
        ("[late]\npercent_a_day = true", "late.percent_a_day", "not a number"),
        ("[late]\npercent_a_day = 1\ndays = 2.5", "late.days", "not a whole number"),
        ("[due]\nch01_tasks = 0001-01-01T00:00:00Z", "due.ch01_tasks", "no class can meet in the year 1"),
        ("[late]\npercent = 1", "late.percent", "Did you mean percent_a_day?"),
        ('zone = "UTC"\n[extensions.ada]\nch01_tasks = 2026-10-19', "extensions.ada.ch01_tasks", "with a due date"),
        ('[[students]]\nid = "ada"\n[extensions.adda]\n', "extensions.adda", "Did you mean ada?"),
        (
            'zone = "UTC"\n[due]\nch01_tasks = 2026-10-19\n[extensions.ada]\nch01_tasks = 2026-10-18',
            "extensions.ada.ch01_tasks",
            "it is before the due date of the class, Monday 19 October 2026",
        ),
        ("[extensions]\nada = 3", "extensions.ada", "write a table"),
        ("students = 3", "students", "the name of a CSV file"),
        ('students = "none.csv"', "students", "none.csv cannot be read"),
        ('[[students]]\nname = "Ada"', "students, number 1", "it has no id"),
        ("[[students]]\nid = 7", "students, number 1", 'write it in quotes, id = "7"'),
        ('[[students]]\nid = "../up"', "students, number 1", "cannot be a folder's name"),
        ('[[students]]\nid = "ada"\nmail = "x"', "students, number 1: mail", "Did you mean email?"),
        ('[[students]]\nid = "ada"\n[[students]]\nid = "Ada"', "students, number 2", "is in the roster twice"),
    ],
)
def test_a_bad_entry_is_said_with_file_entry_and_reason(course, text, entry, reason):
    with pytest.raises(CommandError) as error:
        settings_of(written(course, text))
    assert f"class.toml{f': {entry}: ' if entry else ' '}" in str(error.value)
    assert reason in str(error.value)


def test_a_date_is_said_with_its_day_and_its_offset():
    assert in_words(datetime(2026, 10, 5, 18, tzinfo=ZoneInfo("America/St_Johns"))) == (
        "Monday 5 October 2026, 18:00 (UTC-02:30)"
    )


@pytest.mark.parametrize(("hour", "said"), [(12, "6 hours left"), (19, "1 hour ago")], ids=["before", "after"])
def test_how_long_is_left_is_said(hour, said):
    now = datetime(2026, 10, 19, hour - 2, tzinfo=UTC)
    assert due_line("2026-10-19T18:00:00+02:00", now) == f"Due Monday 19 October 2026, 18:00 (UTC+02:00): {said}."
    assert due_line("soon", now) == "Due: soon"
    assert due_line("", now) == ""


# The notebooks


def test_a_notebook_names_its_date_and_begin_shows_it(course, monkeypatch):
    settings = settings_of(written(course, WHOLE))
    text = announced((NOTEBOOKS / "ch01_tasks.ipynb").read_text(encoding="utf-8"), settings)
    (source,) = (cell.source for cell in nbformat.reads(text, 4).cells if "begin(" in cell.source)
    assert source.endswith('begin("ch01_tasks", due="2026-10-19T18:00:00+02:00", closed=["puzzles", "solutions"])')
    assert chapter_of(nbformat.reads(text, 4)) == "ch01_tasks"
    assert len(as_built(nbformat.reads(text, 4).cells)) == len(nbformat.reads(text, 4).cells)  # for coursekit update
    monkeypatch.setattr("coursekit.learner.session._session", None)
    shown = begin("ch01_tasks", due="2026-10-19T18:00:00+02:00", closed=["puzzles", "solutions"])
    assert "Due Monday 19 October 2026, 18:00 (UTC+02:00)" in str(shown)
    assert "Due Monday" in shown._repr_html_()
    assert solution("parallel_map").title == "No solutions in this class"
    assert "Hint 1" in hint("parallel_map").title
    begin("ch01_tasks", closed=["hints"])
    assert hint("parallel_map").title == "No hints in this class"


def test_without_dates_a_notebook_stays_as_it_is(course):
    text = (NOTEBOOKS / "ch01_tasks.ipynb").read_text(encoding="utf-8")
    assert announced(text, settings_of(written(course, CLASS_TOML.replace("= false", "= true ")))) == text


# The gradebook


@pytest.fixture
def one_assignment(course, no_sandbox) -> Path:
    """Return a course with one assignment of two points, which ada has handed in, 25 hours late."""
    for folder in ("source/hw1", "submitted/ada/hw1"):
        write(course / folder / "p1.ipynb", cells())
    (course / "submitted/ada/hw1/timestamp.txt").write_text("2026-10-20 17:00:00 UTC")
    return written(course, LATE)


LATE = """zone = "Europe/Berlin"
students = [{id = "ada", name = "Ada King Lovelace", canvas = "11"}, {id = "alan", name = "Turing, Alan"}]
[due]
hw1 = 2026-10-19T18:00:00
[late]
percent_a_day = 10
grace_hours = 3
days = 3
"""


def penalty(course: Path) -> float:
    with Book(Course(course)) as book:
        return float(book.gradebook.find_submission("hw1", "ada").late_submission_penalty)


def test_names_and_dates_stand_in_the_gradebook_and_lateness_costs(one_assignment):
    grade(one_assignment)
    with Gradebook(f"sqlite:///{one_assignment}/gradebook.db") as book:
        found = {student.id: (student.first_name, student.last_name, student.lms_user_id) for student in book.students}
        assert found == {"ada": ("Ada King", "Lovelace", "11"), "alan": ("Alan", "Turing", None)}
        assert book.find_assignment("hw1").duedate == datetime(2026, 10, 19, 16)
        assert book.find_submission("hw1", "ada").total_seconds_late == 25 * 3600
    assert penalty(one_assignment) == 0.4  # two days begun, of two points


@pytest.mark.parametrize(
    ("old", "new", "cost"),
    [
        ("percent_a_day = 10", "percent_a_day = 30", 1.2),
        ("grace_hours = 3", "grace_hours = 26", 0),
        ("days = 3", "days = 1", 2),
        ("2026-10-19T18", "2026-10-21T18", 0),
        ("[late]", "[extensions.ada]\nhw1 = 2026-10-20T12:00:00\n[late]", 0.2),
        (LATE[LATE.index("[late]") :], "", 0),
    ],
    ids=["rule", "grace", "days", "date", "extension", "no rule"],
)
def test_what_changes_in_the_file_later_counts_without_grading_again(one_assignment, old, new, cost):
    grade(one_assignment)
    written(one_assignment, LATE.replace(old, new))
    assert penalty(one_assignment) == pytest.approx(cost)
    written(one_assignment, LATE)
    assert penalty(one_assignment) == pytest.approx(0.4)


@pytest.mark.parametrize("again", [grade, report_class])
def test_a_time_that_is_put_right_counts_without_grading_again(one_assignment, again):
    grade(one_assignment)
    (one_assignment / "submitted/ada/hw1/timestamp.txt").write_text("2026-10-19 17:00:00 Europe/Berlin")
    again(one_assignment)
    assert penalty(one_assignment) == 0
    assert "ada,hw1,p1,graded,2,2,0," in (one_assignment / "grades.csv").read_text()


def test_the_time_of_a_newer_notebook_does_not_count_for_the_one_that_was_graded(one_assignment):
    grade(one_assignment)
    write(one_assignment / "submitted/ada/hw1/p1.ipynb", cells(1))
    (one_assignment / "submitted/ada/hw1/timestamp.txt").write_text("2026-10-25 17:00:00 UTC")
    report_class(one_assignment)
    assert penalty(one_assignment) == pytest.approx(0.4)


UNREAD = "submitted/ada/hw1/timestamp.txt: '05.11.2026 18:30' does not say which number is the day and which the month"


@pytest.mark.parametrize("again", [grade, report_class])
def test_a_time_that_cannot_be_read_is_named_and_no_older_one_stays_in_its_place(one_assignment, again):
    grade(one_assignment)
    (one_assignment / "submitted/ada/hw1/timestamp.txt").write_text("05.11.2026 18:30")
    again(one_assignment)
    assert penalty(one_assignment) == 0
    row = next(csv.DictReader((one_assignment / "grades.csv").open(encoding="utf-8")))
    said = f"{UNREAD}, so it counts as on time. Write it as 2026-10-19 18:30:00 Europe/Berlin"
    assert (row["outcome"], row["reason"]) == ("graded", said)
    (one_assignment / "submitted/ada/hw1/timestamp.txt").write_text("2026-10-20 17:00:00 UTC")
    again(one_assignment)
    assert penalty(one_assignment) == pytest.approx(0.4)
    assert UNREAD not in (one_assignment / "grades.csv").read_text()


def test_grade_and_report_say_which_times_they_could_not_read_or_had_no_zone(one_assignment, capsys):
    (one_assignment / "submitted/ada/hw1/timestamp.txt").write_text("05.11.2026 18:30")
    grade_command.grade_class(one_assignment / "submitted", Options(sandbox=False))
    assert UNREAD in capsys.readouterr().err.replace("\n", "")
    (one_assignment / "submitted/ada/hw1/timestamp.txt").write_text("\ufeff2026-10-19 18:30\n", encoding="utf-8")
    report_class(one_assignment)
    said = "'2026-10-19 18:30' names no zone: it was read as Monday 19 October 2026, 18:30 (UTC+02:00)"
    assert said in capsys.readouterr().out
    assert said in (one_assignment / "grades.csv").read_text()


def test_a_day_late_across_the_end_of_summer_time_costs_one_day(one_assignment):
    written(one_assignment, LATE.replace("2026-10-19T18", "2026-10-24T18"))
    (one_assignment / "submitted/ada/hw1/timestamp.txt").write_text("2026-10-25 18:00:00 Europe/Berlin")
    grade(one_assignment)
    assert penalty(one_assignment) == pytest.approx(0.2)


def test_two_late_rules_are_one_too_many(one_assignment):
    (one_assignment / "nbgrader_config.py").write_text(
        'c = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n'
    )
    with pytest.raises(CommandError, match=r"class.toml: late: nbgrader_config.py sets a rule"):
        grade(one_assignment)


# Quizzes


@pytest.mark.parametrize(("text", "points"), [("", 0), ("quizzes = true", 1), (None, 1)])
def test_quizzes_count_where_the_class_says_so(course, text, points):
    if text is not None:
        written(course, text)
    (course / "submitted/ada/ch00_start").mkdir(parents=True)
    master = Run(course / "submitted", Options()).masters()["ch00_start", "ch00_start"]
    assert points_of(master.tests()["what_distribution_costs"]) == points
    assert points_of(master.tests()["best_seconds"]) == 1
    notes = plan(nbformat.from_dict(read_of(notebook())), master).notes
    assert notes == []  # what was handed out says 1 point


@pytest.mark.parametrize(("entry", "possible", "words"), [("false", 1, "not counted"), ("true", 2, "1 point")])
def test_what_the_notebooks_promise_is_what_counts(course, monkeypatch, tmp_path, entry, possible, words):
    settings = settings_of(written(course, f"quizzes = {entry}"))
    text = announced((NOTEBOOKS / "ch00_start.ipynb").read_text(encoding="utf-8"), settings)
    released = nbformat.reads(text, 4).cells
    assert len(as_built(released)) == len(released)  # for coursekit update
    assert [cell.source.partition(".**")[0] for cell in released if cell.source.startswith("**Quiz")] == [
        f"**Quiz · {words}"
    ]
    (source,) = (cell.source for cell in released if "begin(" in cell.source)
    monkeypatch.setattr("coursekit.learner.session._session", None)
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))
    shown = eval(source.splitlines()[-1], {"begin": begin})
    assert f"what_distribution_costs: {words}, 1 min" in str(shown)
    assert f"{plural(possible, 'point')} in this chapter" in shown._repr_html_()
    assert f"passed, {'1 of 1 point' if possible == 2 else 'not counted'}" in str(quiz("what_distribution_costs", "c"))
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/ch00_start.ipynb").write_text(text, encoding="utf-8")
    (chapter,) = overview(tmp_path / "notebooks").chapters
    assert (chapter.points, chapter.earned, chapter.open) == (possible, possible - 1, ("best_seconds",))
    (course / "submitted/ada/ch00_start").mkdir(parents=True)
    master = Run(course / "submitted", Options()).masters()["ch00_start", "ch00_start"]
    assert sum(map(points_of, master.tests().values())) == possible


def test_the_last_point_that_counts_is_the_last_of_the_chapter(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    begin("ch00_start", quizzes=False)
    check("best_seconds", lambda tasks, seconds_each, workers: -(-tasks // workers) * seconds_each)
    assert "Every point of this chapter is yours" in capsys.readouterr().out


def read_of(document: dict) -> dict:
    for cell in document["cells"]:
        cell["source"] = "".join(cell["source"])
        cell["metadata"].setdefault("nbgrader", {})
    return document


# The guide


def test_the_examples_of_the_guide_and_of_the_template_are_valid(course):
    (course / "roster.csv").write_text("id,name,email,group,canvas\nada,Ada Lovelace,,,\n")
    guide = (ROOT / "docs/class.md").read_text(encoding="utf-8")
    example, listed = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert set(settings_of(written(course, example)).due) == {"ch01_tasks", "ch02_objects", "ch03_actors"}
    assert [student.id for student in settings_of(written(course, listed)).students] == ["ada", "grace"]
    uncommented = re.sub(r"^# (?=[a-z_]+ =|\[)", "", CLASS_TOML, flags=re.MULTILINE)
    assert settings_of(written(course, uncommented)).late == Late(percent_a_day=10, grace_hours=1, days=5)
