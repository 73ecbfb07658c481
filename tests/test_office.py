"""The class in tables: everybody is in them, with the gradebook's points, and no cell does anything in a spreadsheet."""

import csv
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from coursekit.basics.tables import harmless
from coursekit.grading.class_run import Run
from coursekit.grading.desk.class_page import write_page_of_class
from coursekit.grading.outcome import Options
from coursekit.sandbox.nursery import NurseryFailed
from tests.classes import grade
from tests.without_sandbox import cells, no_sandbox, write

__all__ = ["no_sandbox"]  # every test here grades without one
pytestmark = pytest.mark.slow

CLASS = """zone = "UTC"
students = [{id = "ada", name = "Ada Lovelace", email = "ada@example.org", group = "A"}, {id = "alan"}, {id = "grace"}]
[due]
hw1 = 2020-01-02T00:00:00
hw2 = 2999-01-01T00:00:00
[late]
percent_a_day = 25
"""


@pytest.fixture
def course(tmp_path) -> Path:
    """Return a class of three, of whom ada handed in in time, alan late; hw3 was handed in by nobody and has no date."""
    for place in ("source/hw1", "source/hw2", "source/hw3", "submitted/ada/hw1", "submitted/alan/hw1"):
        write(tmp_path / place / "p1.ipynb", cells())
    (tmp_path / "submitted/ada/hw1/timestamp.txt").write_text("2020-01-01 12:00:00 UTC")
    (tmp_path / "submitted/alan/hw1/timestamp.txt").write_text("2020-01-02 12:00:00 UTC")
    (tmp_path / "class.toml").write_text(CLASS)
    return tmp_path


def final(course: Path) -> list[list[str]]:
    return list(csv.reader((course / "final.csv").open(encoding="utf-8")))


def rows(course: Path) -> dict[str, list[str]]:
    table = csv.DictReader((course / "grades.csv").open(encoding="utf-8"))
    return {
        f"{row['student']}/{row['assignment']}": [row["outcome"], row["score"], row["max_score"], row["reason"]]
        for row in table
    }


def test_everybody_has_a_row_for_each_assignment_that_the_class_has_had(course):
    grade(course)
    nothing, to_come = "nothing was handed in", "due Tuesday 1 January 2999, 00:00 (UTC+00:00)"
    assert rows(course) == {
        "ada/hw1": ["graded", "2", "2", ""],
        "alan/hw1": ["graded", "1.5", "2", ""],
        "grace/hw1": ["missing", "0", "2", nothing],
        "ada/hw2": ["missing", "0", "2", to_come],
        "alan/hw2": ["missing", "0", "2", to_come],
        "grace/hw2": ["missing", "0", "2", to_come],
    }


def test_the_final_table_has_the_points_less_penalties(course):
    grade(course)
    assert final(course) == [
        ["student", "name", "email", "group", "hw1", "hw2", "total", "of", "to_grade"],
        ["ada", "Ada Lovelace", "ada@example.org", "A", "2", "missing", "2", "4", "0"],
        ["alan", "", "", "", "1.5", "missing", "1.5", "4", "0"],
        ["grace", "", "", "", "missing", "missing", "0", "4", "0"],
    ]


def test_points_by_hand_are_in_the_final_table(course):
    grade(course)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.find_grade("x", "p1", "hw1", "ada").manual_score = 1
        book.db.commit()
    Run(course / "submitted", Options()).report()
    assert final(course)[1][4] == "1"


def test_without_a_roster_those_who_handed_in_are_in_the_tables(course):
    (course / "class.toml").unlink()
    grade(course)
    assert [row[0] for row in final(course)] == ["student", "ada", "alan"]
    assert set(rows(course)) == {"ada/hw1", "alan/hw1"}


def test_who_is_not_on_the_roster_is_in_the_tables_all_the_same(course):
    (course / "class.toml").write_text('students = [{id = "ada"}]')
    grade(course)
    assert [row[:5] for row in final(course)[1:]] == [["ada", "", "", "", "2"], ["alan", "", "", "", "2"]]


def test_a_notebook_that_cannot_be_graded_and_a_folder_without_one_are_told_apart(course):
    (course / "submitted/ada/hw1/p1.ipynb").write_text("{")
    (course / "submitted/grace/hw1").mkdir(parents=True)
    grade(course)
    assert [row[4] for row in final(course)[1:]] == ["not gradable", "1.5", "missing"]


def test_people_read_the_classs_language_and_programs_english(course):
    (course / "class.toml").write_text('language = "de"\n' + CLASS)
    (course / "submitted/ada/hw1/p1.ipynb").write_text("{")
    lines = grade(course)
    reason = lines["ada/hw1/p1"]["reason"]
    assert reason.startswith("the file is not a readable notebook: ")
    assert rows(course)["ada/hw1"][3] == reason
    ada, alan = ((course / f"reports/{name}/hw1/p1.html").read_text(encoding="utf-8") for name in ("ada", "alan"))
    assert '<html lang="de">' in ada
    assert "<b>Nicht bewertet</b>" in ada
    assert "Die Datei ist kein lesbares Notebook: " in ada
    assert "<b>1.5/2 Punkte, davon 0.5 wegen Verspätung schon abgezogen</b>" in alan
    whole = write_page_of_class(Run.of(course)).read_text(encoding="utf-8")
    assert "Nicht bewertbar: 1 Notebook" in whole
    assert "ada: die Datei ist kein lesbares Notebook: " in whole.replace("ada (Ada Lovelace)", "ada")


@pytest.mark.parametrize("error", [KeyboardInterrupt, NurseryFailed, OSError])
def test_after_an_interrupt_or_a_failure_the_tables_say_how_far_it_has_come(course, error):
    def end(record: dict, done: int, total: int) -> None:
        raise error

    with pytest.raises(error):
        Run(course / "submitted", Options()).go(end)
    outcomes = {row[0] for key, row in rows(course).items() if key in ("ada/hw1", "alan/hw1")}
    assert outcomes == {"graded", "not graded yet"}
    assert {row[4] for row in final(course)[1:]} >= {"not graded yet", "missing"}
    grade(course)
    assert final(course)[1][4] == "2"


def test_one_notebook_alone_leaves_the_others_in_the_tables(course):
    grade(course)
    before = final(course)
    Run(course / "submitted/ada/hw1/p1.ipynb", Options()).go(lambda *progress: None)
    assert final(course) == before
    assert "grace/hw1" in rows(course)


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+cmd",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\rx",
        "\n=1",
        " =1",
        '"=1',
        "＝1+1",
        "＋1",
        "－1",
        "＠x",
        "\ufeff=1",
    ],
)
def test_a_cell_that_begins_like_a_formula_is_text_and_stays_so(cell):
    assert harmless(cell) == harmless(harmless(cell)) == f"'{cell}"


@pytest.mark.parametrize("cell", ["Ada", "-", "a=b", "-2", "+1.5", "", 2, -0.5, None, "'n Sync", "ada@example.org"])
def test_all_other_cells_stay_as_they_are(cell):
    assert harmless(cell) == cell
