"""`coursekit grades`: a platform's own table comes back with the points in it, and nothing else in it has changed."""

import csv
import io
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from coursekit.cli import app
from tests.classes import grade
from tests.without_sandbox import cells, no_sandbox, write

__all__ = ["no_sandbox"]  # every test here grades without one
pytestmark = pytest.mark.slow

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Homework 1 (901),hw2 (902),Homework 1 Final Score
    Points Possible,,,,,2.00,2.00,(read only)
"Lovelace, Ada",11,s11,ada@example.org,A,,1,50
"Turing, Alan",12,s12,aturing,A,2,,
"=cmd(), Eve",13,s13,eve,A,,,
"""
WORKSHEET = """Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments
Participant 501,Ada Lovelace,ada@example.org,Submitted,,2.00,-,
Participant 502,Alan Turing,at@example.org,Submitted,2.00,2.00,-,well done
Participant 503,Grace Hopper,gh@example.org,No submission,,2.00,-,
"""
ROSTER = """students = [
  {id = "ada", name = "Ada Lovelace", email = "ada@example.org"},
  {id = "alan", name = "Alan Turing", canvas = "12"},
  {id = "grace", name = "Grace Hopper"},
]
"""


@pytest.fixture
def course(tmp_path, tmp_path_factory) -> Path:
    """Return a class in which ada has 2 of 2 points in hw1, alan 1.5 by hand, grace nothing."""
    graded_once = tmp_path_factory.getbasetemp() / "graded"
    if not graded_once.exists():
        make(graded_once)
    shutil.copytree(graded_once, tmp_path / "course")
    return tmp_path / "course"


def make(course: Path) -> None:
    for place in ("source/hw1", "submitted/ada/hw1", "submitted/alan/hw1"):
        write(course / place / "p1.ipynb", cells())
    (course / "class.toml").write_text(ROSTER)
    grade(course)
    by_hand(course, 1.5)


def by_hand(course: Path, points: float, student: str = "alan") -> None:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_grade("x", "p1", "hw1", student).manual_score = points
        book.db.commit()


def run(course: Path, platform: str, text: str, *options: str) -> tuple[str, list[list[str]]]:
    """Return what the command says, and the table that it wrote."""
    table = course.parent / "table.csv"
    table.write_bytes(text.encode("utf-8"))
    shown = CliRunner().invoke(app, ["grades", str(course), "--to", platform, "--table", str(table), *options])
    made = course.parent / "table-to-import.csv"
    assert table.read_bytes() == text.encode("utf-8")
    return shown.output, list(csv.reader(io.StringIO(made.read_text("utf-8")))) if made.exists() else []


def test_from_the_platforms_zip_to_its_table_in_three_commands(tmp_path):
    (tmp_path / "worksheet.csv").write_text(WORKSHEET)
    write(tmp_path / "course/source/hw1/p1.ipynb", cells())
    with zipfile.ZipFile(tmp_path / "moodle.zip", "w") as archive:
        archive.writestr("Ada Lovelace_501_assignsubmission_file/Untitled (3).ipynb", nbformat.writes(cells()))
    place, table = str(tmp_path / "course"), str(tmp_path / "worksheet.csv")
    for command in (
        ["collect", str(tmp_path / "moodle.zip"), place, "--table", table],
        ["grade", f"{place}/submitted", "--no-sandbox"],
        ["grades", place, "--to", "moodle", "--table", table],
    ):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0, shown.output
    assert (
        "Participant 501,Ada Lovelace,ada@example.org,Submitted,2,2.00"
        in (tmp_path / "worksheet-to-import.csv").read_text()
    )


def test_canvas_gets_its_table_back_with_one_column_filled(course):
    said, table = run(course, "canvas", CANVAS, "--column", "hw1=Homework 1")
    before = list(csv.reader(io.StringIO(CANVAS)))
    assert [row[5] for row in table] == ["Homework 1 (901)", "2.00", "2", "1.5", ""]
    assert [row[6:] for row in table] == [row[6:] for row in before]
    assert [row[1:5] for row in table] == [row[1:5] for row in before]
    assert table[4][0] == "'=cmd(), Eve"
    assert "ada: hw1: empty → 2" in said
    assert "alan: hw1: 2 → 1.5" in said
    assert "line 5, =cmd(), Eve: no student in the class matches" in said
    assert "grace: no line in the table" in said


def test_moodles_worksheet_comes_back_with_its_grades(course):
    said, table = run(course, "moodle", WORKSHEET)
    before = list(csv.reader(io.StringIO(WORKSHEET)))
    assert [row[4] for row in table] == ["Grade", "2", "1.5", ""]
    assert [row[:4] + row[5:] for row in table] == [row[:4] + row[5:] for row in before]
    assert "grace: hw1: missing (--zeros gives 0)" in said


def test_a_dry_run_shows_each_change_and_writes_nothing(course):
    said, table = run(course, "moodle", WORKSHEET, "--dry-run")
    assert table == []
    assert "2 changes:" in said
    assert "alan: hw1: 2.00 → 1.5" in said


def test_a_second_run_on_what_it_wrote_changes_nothing(course):
    _, table = run(course, "moodle", WORKSHEET)
    again = io.StringIO()
    csv.writer(again, lineterminator="\n").writerows(table)
    assert "0 changes." in run(course, "moodle", again.getvalue(), "--dry-run")[0]


def test_who_handed_in_nothing_gets_0_where_one_says_so(course):
    assert [row[4] for row in run(course, "moodle", WORKSHEET, "--zeros")[1]] == ["Grade", "2", "1.5", "0"]


def test_points_that_wait_for_a_person_are_not_handed_on(course):
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_grade("x", "p1", "hw1", "ada").needs_manual_grade = True
        book.db.commit()
    said, table = run(course, "moodle", WORKSHEET)
    assert table[1][4] == ""
    assert "ada: hw1: an answer waits for a person" in said


def test_another_maximum_is_refused_or_scaled(course):
    text = WORKSHEET.replace(",2.00,-", ",100.00,-")
    said, table = run(course, "moodle", text)
    assert "hw1 is worth 100 there and 2 here" in said
    assert table == []
    assert [row[4] for row in run(course, "moodle", text, "--scale")[1]] == ["Grade", "100", "75", ""]


def test_a_table_with_semicolons_decimal_commas_and_a_mark_at_its_start_stays_one(course):
    text = WORKSHEET.replace(",", ";").replace("2.00", "2,00")
    path = course.parent / "table-to-import.csv"
    run(course, "moodle", "\ufeff" + text)
    assert path.read_bytes().startswith(b"\xef\xbb\xbfIdentifier;Full name")
    assert "Alan Turing;at@example.org;Submitted;1,5;2,00;" in path.read_text("utf-8-sig")


def test_moodles_gradebook_does_as_well(course):
    text = "First name,Surname,ID number,Email address,Assignment: hw1 (Real)\nAda,Lovelace,x,other,-\nAlan,Turing,alan,y,-\n"
    assert [row[4] for row in run(course, "moodle", text)[1][1:]] == ["2", "1.5"]


def comment(course: Path, text: str, student: str = "ada") -> None:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_comment("answer_x", "p1", "hw1", student).manual_comment = text
        book.db.commit()


def test_comments_go_into_moodles_column_as_html(course):
    comment(course, "Use **one** `task`.\n\n<script>alert(1)</script>")
    comment(course, "Better.", "alan")
    said, table = run(course, "moodle", WORKSHEET)
    assert [row[-1] for row in table] == [
        "Feedback comments",
        "<p><b>x</b></p>\n<p>Use <strong>one</strong> <code>task</code>.</p>\n<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
        "<p><b>x</b></p>\n<p>Better.</p>",
        "",
    ]
    assert "ada: hw1: 1 comment\n" in said
    assert "alan: hw1: 1 comment instead of those in the table" in said
    again = io.StringIO()
    csv.writer(again, lineterminator="\n").writerows(table)
    assert "0 changes." in run(course, "moodle", again.getvalue(), "--dry-run")[0]


@pytest.mark.parametrize(
    ("platform", "text", "options", "reason"),
    [
        ("moodle", WORKSHEET.replace("Feedback comments", "x"), [], "the table has no column 'Feedback comments'"),
        ("canvas", CANVAS, ["--column", "hw1=Homework 1"], "Canvas' gradebook has no column for them"),
    ],
)
def test_comments_without_a_column_are_said(course, platform, text, options, reason):
    comment(course, "Good.")
    assert f"the comments on 1 hand-in: {reason}" in run(course, platform, text, *options)[0]


def test_two_lines_of_one_student_get_nothing(course):
    said, table = run(course, "moodle", WORKSHEET + WORKSHEET.splitlines()[1] + "\n")
    assert [row[4] for row in table] == ["Grade", "", "1.5", "", ""]
    assert "line 2, Ada Lovelace: no student in the class matches, or more than one does" in said


def test_who_takes_the_name_of_another_gets_nothing_of_theirs(course):
    eve = "Participant 504,Ada Lovelace,eve@example.org,Submitted,,2.00,-,ada\nParticipant 505,ada,x@example.org,,,2.00,-,\n"
    assert [row[4] for row in run(course, "moodle", WORKSHEET + eve)[1]] == ["Grade", "2", "1.5", "", "", ""]


def test_a_number_among_the_points_is_nobodys_id(course):
    (course / "class.toml").write_text(ROSTER.replace('"grace"', '"2.00"'))
    assert "2.00: no line in the table" not in run(course, "moodle", WORKSHEET)[0]
    assert [row[4] for row in run(course, "moodle", WORKSHEET, "--zeros")[1]] == ["Grade", "2", "1.5", "0"]


@pytest.mark.parametrize(
    ("platform", "text", "options", "reason"),
    [
        ("canvas", WORKSHEET, [], "it lacks the columns Student, ID, and Section"),
        ("moodle", CANVAS, [], "is Canvas' gradebook"),
        ("ilias", CANVAS, [], "--to ilias is unknown"),
        ("canvas", CANVAS, [], 'Say which column it is: --column "hw1=Homework 1"'),
        ("canvas", CANVAS, ["--column", "hw1=Homework 7"], "has no column Homework 7"),
        ("canvas", CANVAS, [], "Its columns are: Homework 1 (901), hw2 (902).\n"),
        ("canvas", CANVAS, ["--column", "hw9=Homework 1"], "The class has not had hw9"),
        ("canvas", CANVAS, ["--column", "hw1"], "names no column"),
        ("moodle", "Identifier,Grade\n", [], "has no rows"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_next_step(course, platform, text, options, reason):
    said, table = run(course, platform, text, *options)
    assert reason in said
    assert table == []


def test_a_worksheet_of_moodle_asks_for_the_assignment_once_there_are_several(course):
    shutil.copytree(course / "source/hw1", course / "source/hw2")
    shutil.copytree(course / "submitted/ada/hw1", course / "submitted/ada/hw2")
    grade(course)
    said, table = run(course, "moodle", WORKSHEET)
    assert '--column "hw2=Grade" (there are hw1, hw2)' in said
    assert table == []


def test_without_a_roster_the_platforms_words_find_the_students(course):
    (course / "class.toml").unlink()
    (course / "submitted/ada").rename(course / "submitted/lovelaceada_11")
    (course / "submitted/alan").rename(course / "submitted/Alan Turing")
    grade(course, again=True)
    assert [row[5] for row in run(course, "canvas", CANVAS, "--column", "hw1=Homework 1")[1][2:4]] == ["2", "2"]
    assert [row[4] for row in run(course, "moodle", WORKSHEET)[1][1:3]] == ["2", "2.00"]


def test_a_plain_table_is_the_final_one(course):
    shown = CliRunner().invoke(app, ["grades", str(course), "--to", "csv", "--out", str(course.parent / "office.csv")])
    assert shown.exit_code == 0, shown.output
    assert [row[4] for row in csv.reader((course.parent / "office.csv").open())] == ["hw1", "2", "1.5", "missing"]


def test_a_folder_that_was_handed_in_is_not_read_as_a_course(course):
    (course.parent / "submitted/eve").mkdir(parents=True)
    course.rename(course.parent / "submitted/eve/hw1")
    (course.parent / "submitted/eve/hw1/nbgrader_config.py").write_text("raise SystemExit('ran')")
    shown = CliRunner().invoke(app, ["grades", str(course.parent / "submitted/eve/hw1")])
    assert "so everything around it was handed in" in " ".join(shown.output.split())


def test_nothing_graded_is_said(tmp_path):
    write(tmp_path / "source/hw1/p1.ipynb", cells())
    shown = CliRunner().invoke(app, ["grades", str(tmp_path)])
    assert shown.exit_code == 1
    assert "Nothing has been graded" in shown.output


def test_nobody_gets_0_before_the_date(course):
    entries = 'zone = "UTC"\n' + ROSTER + "[due]\nhw1 = 2020-01-01\n[extensions.grace]\nhw1 = 2999-01-01\n"
    (course / "class.toml").write_text(entries)
    said, table = run(course, "moodle", WORKSHEET, "--zeros")
    assert table[3][4] == ""
    assert "grace: hw1: missing, due Tuesday 1 January 2999" in said


@pytest.mark.parametrize("command", ["report", "class", "similar", "grades", "give-back"])
def test_each_command_says_that_another_program_holds_the_gradebook(course, command, monkeypatch):
    def held(*args: object) -> None:
        raise OperationalError("SELECT", {}, Exception("database is locked"))

    monkeypatch.setattr("coursekit.grading.gradebook.enrol", held)
    shown = CliRunner().invoke(app, [command, str(course)])
    said = " ".join(shown.output.split())
    assert shown.exit_code == 1
    assert "in use by another program, such as formgrader or a database viewer. Close that program. Then run" in said
    assert "SELECT" not in said


@pytest.mark.parametrize("command", ["report", "similar", "grades", "give-back"])
def test_a_course_from_which_the_submissions_were_taken_away_is_said(course, command):
    shutil.rmtree(course / "submitted")
    shown = CliRunner().invoke(app, [command, str(course)])
    assert (shown.exit_code, "There is nothing to grade in" in shown.output) == (1, True)
