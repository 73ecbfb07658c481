"""Everything that was handed in ends with one outcome: what is misplaced, missing or unreadable too. No sandbox runs here."""

import csv
import errno
import json
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.api import Gradebook
from sqlalchemy import orm
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from coursekit.basics.errors import CommandError
from coursekit.basics.paths import SOLUTIONS
from coursekit.grading import cluster
from coursekit.grading.class_run import Run
from coursekit.grading.desk import grade_command
from coursekit.grading.desk.grade_command import report_class, show_class
from coursekit.grading.gradebook import Book
from coursekit.grading.grading_plan import Master, plan
from coursekit.grading.nbgrader_settings import Course
from coursekit.grading.outcome import Options
from coursekit.grading.submission import NotGradable, Submission, find, find_one, read, with_files_of_master
from coursekit.grading.submission_grader import ENDED
from tests.classes import grade, lines
from tests.nbgrader_courses import nbgrader
from tests.without_sandbox import Box, cells, no_sandbox, write

pytestmark = pytest.mark.slow
__all__ = ["no_sandbox"]  # every test here grades without one


@pytest.fixture
def course(tmp_path) -> Path:
    """Return a course with one assignment of two notebooks, and one student who has handed in both."""
    for folder in ("source/hw1", "submitted/ada/hw1"):
        for name in ("p1", "p2"):
            write(tmp_path / folder / f"{name}.ipynb")
    return tmp_path


def table(course: Path) -> dict[str, tuple[str, str]]:
    """Return what grades.csv says of each notebook: its outcome and the reason."""
    rows = csv.DictReader((course / "grades.csv").open(encoding="utf-8"))
    return {f"{row['student']}/{row['assignment']}/{row['notebook']}": (row["outcome"], row["reason"]) for row in rows}


# What is found


def problems(course: Path) -> dict[str, str]:
    return {item.key: item.problem for item in find(course / "submitted", {"hw1": {"p1", "p2"}})}


def test_what_lies_in_the_wrong_place_is_found_with_a_problem(course):
    write(course / "submitted/ben/HW1/p1.ipynb")
    write(course / "submitted/cy/p1.ipynb")
    for name in (".ipynb_checkpoints", "__MACOSX"):
        write(course / f"submitted/ada/{name}/p1.ipynb")
    (course / "submitted/ada/notes.txt").touch()
    assert problems(course) == {
        "ada/hw1/p1": "",
        "ada/hw1/p2": "",
        "ben/HW1/HW1": "there is no assignment named HW1: the assignments are hw1",
        "cy//p1": "it lies in no assignment's folder: the assignments are hw1",
    }


def test_a_notebook_that_was_not_handed_in_is_found_with_a_problem(course):
    write(course / "submitted/dan/hw1/p1.ipynb")
    problem = "it was not handed in: there is no p2.ipynb in the folder (was it renamed?)"
    assert problems(course)["dan/hw1/p2"] == problem
    assert problems(course)["dan/hw1/p1"] == ""
    (course / "submitted/eve/hw1").mkdir(parents=True)
    assert {problems(course)[f"eve/hw1/{name}"] for name in ("p1", "p2")} == {"no notebook was handed in"}


@pytest.mark.parametrize("unreadable", ["submitted/eve", "submitted/eve/hw1"])
def test_a_folder_that_cannot_be_read_is_found_with_a_problem(course, monkeypatch, unreadable):
    def iterdir(path):
        if path == course / unreadable:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path)

    write(course / "submitted/eve/hw1/p1.ipynb")
    original = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", iterdir)
    found = {key: problem for key, problem in problems(course).items() if problem}
    assert set(found.values()) == {"the folder cannot be read (Permission denied)"}
    assert set(found) == ({"eve//eve"} if unreadable == "submitted/eve" else {"eve/hw1/p1", "eve/hw1/p2"})


def test_who_handed_in_nothing_that_can_be_graded_has_a_row_and_a_page(course):
    write(course / "submitted/ben.ipynb")
    (course / "submitted/cy").mkdir()
    (course / "submitted/cy/hw1.zip").touch()
    (course / "submitted/dan").symlink_to("nowhere")
    (course / "submitted/notes.txt").touch()
    records = grade(course)
    said = {key: record["reason"] for key, record in records.items() if record["outcome"] != "graded"}
    assert said == {
        "//ben": "it lies in no student's folder: the assignments are hw1",
        "cy//cy": "no assignment's folder was handed in: the assignments are hw1",
        "dan//dan": "the student's folder is a link that leads nowhere",
    }
    assert {key: row[1] for key, row in table(course).items() if row[0] != "graded"} == said
    pages = {"reports/ben.html", "reports/cy/cy.html", "reports/dan/dan.html"}
    assert {str(path.relative_to(course)) for path in course.glob("reports/**/*.html")} - pages == {
        "reports/ada/hw1/p1.html",
        "reports/ada/hw1/p2.html",
    }
    assert all((course / page).exists() for page in pages)


def test_beside_a_single_notebook_nothing_was_handed_in(tmp_path):
    write(tmp_path / "anna.ipynb")
    (tmp_path / "secret").write_text("a key")
    [single] = find_one(tmp_path / "anna.ipynb")
    assert single.files() == {}


def test_what_nbgrader_ignores_and_what_a_grader_wrote_does_not_come_along(course):
    folder = course / "source/hw1"
    kept = {"a.csv", "more/a.csv", "more/graded/a.csv", ".data/a.csv", ".settings"}
    left = {"graded/.coursekit-run.json", "graded/a.csv", "more/feedback/a.csv", "__pycache__/a.csv", "a.pyc"}
    for name in kept | left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    assert set(Master.of(folder / "p1.ipynb").files) == kept
    assert list(Submission("ada", "hw1", "p1", folder / "p1.ipynb").files())[-1] == ".data/a.csv"  # hidden ones last


def test_files_beside_the_masters_notebook_take_the_place_of_those_handed_in():
    master = {"data/x.csv": b"master", "y.csv": b"master"}
    handed_in = {"data": b"a file", "y.csv/z": b"in a folder", "data/x.csv": b"another", "data/w.csv": b"kept"}
    assert with_files_of_master(handed_in, master) == master | {"data/w.csv": b"kept"}


# What is recorded


def test_each_of_them_has_a_row_and_a_reason_until_it_is_put_right(course):
    write(course / "submitted/ben/HW1/p1.ipynb")
    write(course / "submitted/cy/p1.ipynb")
    write(course / "submitted/dan/hw1/p1.ipynb")
    grade(course)
    rows = table(course)
    good = {key for key, (outcome, _) in rows.items() if outcome == "graded"}
    assert good == {"ada/hw1/p1", "ada/hw1/p2", "dan/hw1/p1"}
    assert set(rows) - good == {"ben/HW1/HW1", "cy//p1", "dan/hw1/p2"}
    assert "no assignment named HW1" in (course / "reports/ben/HW1/HW1.html").read_text()
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        assert book.find_submission("hw1", "dan").score == 2

    (course / "submitted/ben/HW1").rename(course / "submitted/ben/hw1")
    write(course / "submitted/dan/hw1/p2.ipynb")
    grade(course)
    assert {key for key, (outcome, _) in table(course).items() if outcome == "graded"} == good | {
        "ben/hw1/p1",
        "dan/hw1/p2",
    }
    assert "ben/HW1/HW1" not in table(course)


def test_a_graded_notebook_that_is_moved_to_the_right_student_takes_its_points_along(course, capsys):
    (course / "class.toml").write_text('students = [{id = "ada"}, {id = "ben"}]')
    (course / "submitted/ada").rename(course / "submitted/bne")
    grade_command.grade_class(course / "submitted", Options(sandbox=False))
    assert "Not on the roster in class.toml: bne. If a name was mistyped" in capsys.readouterr().err
    (course / "submitted/bne").rename(course / "submitted/ben")
    grade_command.grade_class(course / "submitted", Options(sandbox=False))
    said = capsys.readouterr().err
    assert "bne/hw1/p1 had been graded and was moved to ben: its points were taken back." in said
    assert "Not on the roster" not in said
    assert {key for key, (outcome, _) in table(course).items() if outcome == "graded"} == {"ben/hw1/p1", "ben/hw1/p2"}
    assert not any(key.startswith("bne") for key in table(course))
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        assert [(student.id, student.score) for student in book.students] == [("ada", 0), ("ben", 4)]
    show_class(course)
    assert "bne" not in (course / "class.html").read_text(encoding="utf-8")
    report_class(course)
    assert not any(key.startswith("bne") for key in table(course))
    nbgrader(course, "generate_feedback", "hw1")


def test_one_of_two_equal_hand_ins_that_is_put_away_keeps_its_points(course):
    for name in ("p1", "p2"):
        write(course / f"submitted/ben/hw1/{name}.ipynb")
    grade(course)
    shutil.rmtree(course / "submitted/ada")
    grade(course)
    assert table(course)["ada/hw1/p1"] == ("graded", "")


def test_a_second_hand_in_of_the_room_is_named_as_a_conflict(course):
    write(course / "submitted/ada/hw1-2/p1.ipynb")
    outcome, reason = (grade(course), table(course)["ada/hw1-2/hw1-2"])[1]
    assert outcome == "not gradable"
    assert reason.startswith("somebody else handed in hw1 as ada in the room too")


def test_nothing_in_its_place_is_told_what_is_expected(tmp_path):
    write(tmp_path / "source/hw1/p1.ipynb")
    write(tmp_path / "submitted/p1.ipynb")
    write(tmp_path / "submitted/ben/HW1/p1.ipynb")
    with pytest.raises(CommandError, match="where the assignments are hw1"):
        grade(tmp_path)


def test_a_notebook_of_a_course_is_graded_as_part_of_the_course(course):
    grade(course)
    write(course / "submitted/ada/hw1/p1.ipynb", cells(points=3))
    run = Run(course / "submitted/ada/hw1/p1.ipynb", Options())
    assert [(row["key"], row["outcome"], row["score"]) for row in run.go(lambda *progress: None)] == [
        ("ada/hw1/p1", "graded", 2)
    ]
    assert (course / "reports/ada/hw1/p1.html").exists()
    assert not (course / "submitted/ada/hw1/graded").exists()


# What comes along with a notebook: nothing of it is run or believed, and nothing is written through its links

EXECUTED = "from pathlib import Path\nPath({mark!r}).touch()\n"
FORGED = {"student": "anna", "assignment": "anna", "notebook": "anna", "outcome": "graded", "score": 2, "max_score": 2}


def grade_alone(path: Path, **options: Any) -> dict:
    """Return the row of one notebook, which is of no assignment."""
    [row] = Run(path, Options(**options)).go(lambda *progress: None)
    return row


def forge(folder: Path, notebook: Path) -> None:
    """Write what a run would leave that has given all points."""
    digest = Submission("anna", "anna", "anna", notebook).digest
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_text(json.dumps({"key": "anna/anna/anna", "digest": digest} | FORGED) + "\n")


def test_a_configuration_that_was_handed_in_beside_a_notebook_never_runs(tmp_path):
    path, mark = write(tmp_path / "anna.ipynb"), tmp_path / "mark"
    (tmp_path / "nbgrader_config.py").write_text(EXECUTED.format(mark=str(mark)))
    grade_alone(path)
    (tmp_path / "graded/nbgrader_config.py").write_text(EXECUTED.format(mark=str(mark)))
    grade_alone(path)
    assert not mark.exists()


def test_outcomes_that_were_handed_in_are_refused(tmp_path):
    path = write(tmp_path / "anna.ipynb")
    forge(tmp_path / "graded", path)
    (tmp_path / "graded/.coursekit-run.json").write_text('{"seed": 1, "token": ""}')
    with pytest.raises(CommandError, match="Move it away"):
        grade_alone(path)


def test_a_state_that_was_copied_from_another_folder_is_refused(tmp_path):
    grade_alone(write(tmp_path / "anna.ipynb"))
    another = write(tmp_path / "more/anna.ipynb")
    shutil.copytree(tmp_path / "graded", tmp_path / "more/graded")
    with pytest.raises(CommandError, match="Move it away"):
        grade_alone(another)


def test_another_seed_in_the_state_is_refused(tmp_path):
    path, state = write(tmp_path / "anna.ipynb"), tmp_path / "graded/.coursekit-run.json"
    grade_alone(path)
    state.write_text(json.dumps(json.loads(state.read_text()) | {"seed": 1}))
    with pytest.raises(CommandError, match="Move it away"):
        grade_alone(path)


def test_outcomes_that_were_unpacked_over_those_of_a_run_are_not_believed(tmp_path):
    path = write(tmp_path / "anna.ipynb")
    grade_alone(path)
    forge(tmp_path / "graded", path)
    assert grade_alone(path)["outcome"] == "not gradable"


@pytest.mark.parametrize("link", ["graded", "graded/results.jsonl", "graded/reports", "graded/autograded/anna"])
def test_nothing_is_written_through_a_link(tmp_path, link):
    path, elsewhere = write(tmp_path / "in/anna.ipynb"), tmp_path / "elsewhere"
    grade_alone(path)
    elsewhere.mkdir()
    place = tmp_path / "in" / link
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.rename(elsewhere / "old")
    place.symlink_to(elsewhere / "old" if (elsewhere / "old").exists() else elsewhere)
    before = {file: file.read_bytes() for file in elsewhere.rglob("*") if file.is_file()}
    with pytest.raises(CommandError, match="Move it away"):
        grade_alone(path)
    assert {file: file.read_bytes() for file in elsewhere.rglob("*") if file.is_file()} == before


def test_a_link_in_a_notebooks_place_is_not_followed(tmp_path):
    solution = write(tmp_path / "course/p1.ipynb")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/ch00_start.ipynb").symlink_to(solution)
    assert "the notebook is a link" in grade_alone(tmp_path / "in/ch00_start.ipynb")["reason"]
    assert not (tmp_path / "course/graded").exists()


def test_a_folder_that_only_looks_like_a_course_is_none(course):
    mark = course / "mark"
    (course / "nbgrader_config.py").write_text(EXECUTED.format(mark=str(mark)))
    with pytest.raises(CommandError, match=r"coursekit grade .*/submitted --only ada/hw1`"):
        grade_alone(course / "submitted/ada/hw1/p1.ipynb")
    assert not mark.exists()
    grade(course)
    assert mark.exists()
    assert grade_alone(course / "submitted/ada/hw1/p1.ipynb")["score"] == 2


def test_what_a_student_handed_in_is_never_taken_for_a_course(course):
    mine, mark = course / "submitted/ada", course / "mark"
    write(mine / "source/hw1/p1.ipynb", cells(points=99))
    write(mine / "all/ada/hw1/p1.ipynb")
    (mine / "nbgrader_config.py").write_text(EXECUTED.format(mark=str(mark)))
    with pytest.raises(CommandError, match="choose with --only"):
        Run(mine / "all", Options()).go(lambda *progress: None)
    assert not mark.exists()


def test_where_no_key_can_be_kept_a_course_is_graded_all_the_same(course, monkeypatch):
    (course / "file").touch()
    monkeypatch.setenv("COURSEKIT_HOME", str(course / "file/home"))
    assert grade(course)["ada/hw1/p1"]["score"] == 2
    with pytest.raises(CommandError, match="start with"):
        grade_alone(course / "submitted/ada/hw1/p1.ipynb")


# Names: whatever a folder is called, its student has a row, and all others have theirs

GBK = os.fsdecode(
    "作业".encode("gbk") * 40
)  # as a zip from Windows brings it: no UTF-8, and long once it is spelled out
NAMES = ["an\nna", "be\rn", "cy\u2028", GBK, GBK[:-2], "ü" * 127, ".dan", "*", "[e]", "{student_id}", "f.html"]


def hand_in_under(course: Path, name: str) -> None:
    for notebook in ("p1", "p2"):
        write(course / "submitted" / name / f"hw1/{notebook}.ipynb")


def rows_of(course: Path) -> Counter:
    """Return how many rows of grades.csv each student has, and with which outcome."""
    rows = csv.DictReader((course / "grades.csv").open(encoding="utf-8", newline=""))
    return Counter((row["student"], row["outcome"]) for row in rows)


def test_each_name_has_a_row_of_its_own_in_one_line_and_nbgraders_feedback_is_made(course):
    for name in NAMES:
        hand_in_under(course, name)
    (course / "submitted/f.ipynb").touch()
    (course / "submitted/ada/hw1/timestamp.txt").write_text("yesterday")
    grade(course)
    rows = rows_of(course)
    assert rows.pop(("", "not gradable")) == 1
    assert (len(rows), set(rows.values())) == (1 + len(NAMES), {2})
    assert {outcome for _, outcome in rows} == {"graded"}
    assert {"ada", ".dan", "*", "[e]", "{student_id}", "f.html"} < {student for student, _ in rows}
    assert all(student.isprintable() and len(student.encode()) <= 200 for student, _ in rows)
    for _ in range(2):
        nbgrader(course, "generate_feedback", "hw1")
    made = {path.name for path in (course / "feedback").iterdir()}
    assert {student for student, _ in rows} - made <= {".dan", "[e]"}  # nbgrader itself looks for neither


def test_hidden_folders_of_tools_are_no_students_and_no_assignments(course):
    for name in (".ipynb_checkpoints/hw1/p1.ipynb", "ada/.ipynb_checkpoints/p1.ipynb", "ada/.hw2/p1.ipynb"):
        write(course / "submitted" / name)
    for name in (".DS_Store", "._ada.ipynb", "ada/.DS_Store", "ada/.git/config"):
        (course / "submitted" / name).parent.mkdir(exist_ok=True)
        (course / "submitted" / name).touch()
    (course / "submitted/feedback").mkdir()
    assert set(problems(course)) == {"ada/hw1/p1", "ada/hw1/p2", "ada/.hw2/.hw2", "feedback//feedback"}


def test_a_chapter_of_any_name_gives_a_single_notebook_a_row_and_a_page(tmp_path):
    row = grade_alone(write(tmp_path / "anna.ipynb", new_notebook(cells=[new_code_cell(f'begin("{"𠀀" * 5000}")')])))
    assert row["reason"].startswith("the assignment has no notebook named 𠀀𠀀")
    [page] = (tmp_path / "graded/reports/anna").glob("*/*.html")
    assert "no notebook named" in page.read_text(encoding="utf-8")


def failing_for(monkeypatch, student: str, number: int) -> None:
    """Let the system refuse to make a student's folder for what came of it."""

    def mkdir(path, *arguments, **options):
        if path.parent.name == student and "submitted" not in path.parts:
            raise OSError(number, os.strerror(number), str(path))
        original(path, *arguments, **options)

    original = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", mkdir)


def test_what_cannot_be_written_for_one_student_is_that_students_reason(course, monkeypatch):
    hand_in_under(course, "ben")
    failing_for(monkeypatch, "ben", errno.EILSEQ)
    records = grade(course)
    said = os.strerror(errno.EILSEQ)
    reason = f"its result cannot be written ({said}); it has no page: its result cannot be written ({said})"
    assert records["ben/hw1/p1"]["reason"] == reason
    assert records["ada/hw1/p1"]["score"] == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_what_cannot_be_written_for_anyone_stops_the_run_and_is_graded_by_the_next(course, monkeypatch, number):
    with monkeypatch.context() as full:
        failing_for(full, "ada", number)
        with pytest.raises(OSError, match=os.strerror(number)):
            grade(course)
    assert grade(course)["ada/hw1/p1"]["score"] == 2


def test_a_page_whose_place_is_taken_costs_the_page_alone(course):
    write(course / "submitted/ada/x.ipynb")
    write(course / "submitted/ada/x.html/y.ipynb")
    records = grade(course)
    [without] = [key for key, record in records.items() if "it has no page" in record["reason"]]
    assert without in ("ada//x", "ada/x.html/x.html")  # whichever comes second
    assert records["ada/hw1/p1"]["score"] == 2


def test_files_that_nbgrader_has_made_read_only_are_written_again(course):
    data = course / "submitted/ada/hw1/data.csv"
    data.write_text("1")
    grade(course)
    (course / "autograded/ada/hw1/data.csv").chmod(0o444)
    data.write_text("2")
    grade(course, again=True)
    copied = course / "autograded/ada/hw1/data.csv"
    assert (copied.read_text(), bool(copied.stat().st_mode & 0o200)) == ("2", True)


def test_a_run_keeps_in_memory_what_the_table_says_and_no_more(course):
    rows = Run(course / "submitted", Options()).go(lambda *progress: None)
    assert set(rows[0]) == {"key", "digest", *next(csv.reader((course / "grades.csv").open()))}
    assert "results" in lines(course / "results.jsonl")[0]


def hand_in_what_is_lost(course: Path) -> None:
    lost = cells()
    lost.cells[0].source = "lost = True"
    write(course / "submitted/ben/hw1/p1.ipynb", lost)


def test_a_submission_whose_sandbox_is_ended_again_and_again_stops_nobody(course):
    hand_in_what_is_lost(course)
    records = grade(course)
    assert (records["ben/hw1/p1"]["outcome"], records["ben/hw1/p1"]["reason"]) == ("not gradable", ENDED)
    assert records["ada/hw1/p1"]["score"] == 2


def test_a_submission_whose_sandboxes_another_may_have_ended_is_graded_once_more_alone(course, monkeypatch):
    hand_in_what_is_lost(course)
    monkeypatch.setattr(Box, "left", 4)
    assert grade(course)["ben/hw1/p1"]["score"] == 2


UNLUCKY, ANOTHER = (Submission(name, "hw1", "p1", Path("p1.ipynb")) for name in ("ben", "ada"))


class Lost(Exception):
    """What Ray raises here for a submission; `cause` is what its grader raised, None where its node was lost."""

    def __init__(self, cause: Exception | None = None):
        self.cause = cause


@pytest.fixture
def crew() -> Any:
    """Return a crew of one node, whose grader starts at once and grades nothing: Ray is played."""
    crew: Any = object.__new__(cluster._Crew)
    crew.ray, crew.options, crew.alone, crew.shared, crew.fingerprint = MagicMock(), Options(jobs=1), False, None, ""
    crew.ray.exceptions.RayError, crew.ray.exceptions.RayTaskError, crew.ray.get.side_effect = Lost, TypeError, Lost
    crew.losses, crew.waiting, crew.grading, crew.starting = cluster.Counter(), cluster.deque(), {}, {}
    crew.nodes = [cluster._Node("node", "10.0.0.1", cpus=1)]
    crew._alive = lambda: [({"NodeID": "node"}, 1)]
    crew._start(crew.nodes[0])
    return crew


def graded_by(crew: Any) -> list:
    """Return what comes of a submission that the node grades."""
    [node] = crew.nodes
    node.free, crew.grading["work"] = 0, (node, node.grader, UNLUCKY)
    return list(crew._graded("work"))


def test_on_a_cluster_who_loses_four_nodes_has_an_outcome_and_from_the_second_on_goes_alone(crew):
    assert [list(crew._again(UNLUCKY)) for _ in range(2)] == [[], []]
    assert crew._may_go()
    crew.grading = {"work": (None, None, ANOTHER)}
    assert not crew._may_go()
    assert list(crew._again(UNLUCKY)) == []
    [outcome] = crew._again(UNLUCKY)
    assert (outcome.graded, outcome.reason.partition(":")[0]) == (None, "the nodes that graded it were lost 4 times")


def test_on_a_cluster_nobody_joins_who_goes_alone(crew):
    crew.waiting.append(ANOTHER)
    crew.grading = {"work": (None, None, UNLUCKY)}
    assert crew._may_go()
    crew.losses[UNLUCKY.key] = 2
    assert not crew._may_go()


def test_on_a_cluster_of_one_node_who_loses_it_four_times_has_an_outcome(crew):
    assert [graded_by(crew) for _ in range(3)] == [[], [], []]
    [outcome] = graded_by(crew)
    assert outcome.reason.startswith("the nodes that graded it were lost 4 times")
    assert crew.nodes[0].starts == 1


def test_on_a_cluster_the_last_node_is_left_alone_where_it_cannot_start(crew):
    [node] = crew.nodes
    for _ in range(cluster.STARTS):
        [work] = crew.starting
        crew._started(work)
    assert crew.nodes == []
    assert (node.starts, crew.starting) == (cluster.STARTS, {})


def test_on_a_cluster_a_submission_whose_sandboxes_another_may_have_ended_is_graded_once_more_alone(crew):
    crew.ray.get.side_effect = Lost(NotGradable(ENDED))
    assert (graded_by(crew), list(crew.waiting), crew.nodes[0].free) == ([], [UNLUCKY], 1)
    crew.grading = {"work": (None, None, ANOTHER)}
    assert not crew._may_go()
    crew.grading.clear()
    assert [outcome.reason for outcome in graded_by(crew)] == [ENDED]


def test_a_file_beside_a_notebook_that_cannot_be_read_is_left_out_and_named(course, monkeypatch):
    def read_bytes(path):
        if path.name == "data.csv":
            raise PermissionError(13, "Permission denied", str(path))
        return original(path)

    for name in ("data.csv", "more.csv"):
        (course / "submitted/ada/hw1" / name).write_text("1")
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    reason = grade(course)["ada/hw1/p1"]["reason"]
    assert reason == "the file data.csv beside the notebook cannot be read (Permission denied): it was left out"
    assert "data.csv beside the notebook" in (course / "reports/ada/hw1/p1.html").read_text()
    assert {path.name for path in (course / "autograded/ada/hw1").iterdir()} == {"p1.ipynb", "p2.ipynb", "more.csv"}


def refuse(monkeypatch, student: str, error: Exception) -> None:
    """Let the database raise an error where a student is to be added."""

    def flush(session, objects=None):
        if student in {getattr(row, "id", "") for row in session.new}:
            raise error
        original(session, objects)

    original = orm.Session.flush
    monkeypatch.setattr(orm.Session, "flush", flush)


def test_a_name_that_the_database_does_not_take_is_one_students_reason(course, monkeypatch):
    write(course / f"submitted/{'x' * 129}/hw1/p1.ipynb")
    too_long = Exception("value too long for type character varying(128)")
    refuse(monkeypatch, "x" * 129, DataError("INSERT", {}, too_long))
    records = grade(course)
    assert records[f"{'x' * 129}/hw1/p1"]["reason"] == f"the gradebook rejects it ({too_long})"
    assert records["ada/hw1/p1"]["score"] == 2


def test_a_database_that_is_locked_where_a_student_is_added_costs_that_student_nothing(course, monkeypatch):
    with monkeypatch.context() as locked:
        refuse(locked, "ada", OperationalError("INSERT", {}, Exception("database is locked")))
        with pytest.raises(OperationalError, match="database is locked"):
            grade(course)
    assert grade(course)["ada/hw1/p1"]["score"] == 2


def test_what_the_gradebook_never_takes_is_that_students_reason(course, monkeypatch):
    def record(book, submission, graded):
        if submission.student == "ben":
            raise ValueError("a value of no kind that it knows")
        original(book, submission, graded)

    write(course / "submitted/ben/hw1/p1.ipynb")
    original = Book.record
    monkeypatch.setattr(Book, "record", record)
    records = grade(course)
    assert "a value of no kind" in records["ben/hw1/p1"]["reason"]
    assert records["ada/hw1/p1"]["score"] == 2


def scores_in_the_gradebook(course: Path) -> dict[str, float]:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        return {notebook.name: notebook.score for notebook in book.find_submission("hw1", "ada").notebooks}


def test_a_folder_in_a_notebooks_place_costs_that_notebook_alone(course):
    (course / "submitted/ada/hw1/p2.ipynb").unlink()
    (course / "submitted/ada/hw1/p2.ipynb").mkdir()
    grade(course)
    assert scores_in_the_gradebook(course) == {"p1": 2, "p2": 0}


def test_points_come_back_when_a_folder_can_be_read_again(course, monkeypatch):
    def iterdir(path):
        if path == course / "submitted/ada/hw1":
            raise PermissionError(13, "Permission denied", str(path))
        return original(path)

    def exists(path):
        return course / "submitted/ada/hw1" not in Path(path).parents and known(path)

    grade(course)
    original, known = Path.iterdir, os.path.exists
    with monkeypatch.context() as unreadable:
        unreadable.setattr(Path, "iterdir", iterdir)
        unreadable.setattr(os.path, "exists", exists)
        assert {row["reason"] for row in grade(course).values()} == {"the folder cannot be read (Permission denied)"}
    assert {row["score"] for row in grade(course).values()} == {2}
    assert scores_in_the_gradebook(course) == {"p1": 2, "p2": 2}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "/course/reports"), "/course/reports: Permission denied"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (IntegrityError("INSERT", {}, Exception("a row is there twice")), "a row is there twice"),
    ],
    ids=["file", "disk", "database"],
)
def test_a_fault_of_the_machine_is_said_in_one_message(course, monkeypatch, error, said):
    def go(run, report):
        raise error

    monkeypatch.setattr(Run, "go", go)
    with pytest.raises(CommandError) as raised:
        grade_command.grade_class(course / "submitted", Options(sandbox=False))
    assert said in str(raised.value)
    assert "run the same command again" in str(raised.value)


def impatient(original):
    """Return what makes a course whose gradebook waits for no other program."""

    def init(self, *arguments, **options):
        original(self, *arguments, **options)
        self.directory.db_url += "?timeout=0"

    return init


def test_a_locked_gradebook_is_said_to_be_in_use_by_its_name(course, monkeypatch):
    grade(course)
    monkeypatch.setattr(Course, "__init__", impatient(Course.__init__))
    with sqlite3.connect(course / "gradebook.db", isolation_level=None) as other:
        other.execute("begin exclusive")
        for command in (
            report_class,
            lambda folder: grade_command.grade_class(folder / "submitted", Options(sandbox=False)),
        ):
            with pytest.raises(CommandError) as raised:
                command(course)
            said = str(raised.value)
            assert said.startswith(f"{course}/gradebook.db is in use by another program")
            assert "run the same command again" in said
            assert "SQL" not in said
        other.execute("rollback")
    report_class(course)


# The gradebook's cells


def cells_in_the_gradebook(course: Path) -> set[tuple]:
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        notebook = book.find_notebook("p1", "hw1")
        graded = {(cell.name, cell.max_score) for cell in notebook.grade_cells}
        return graded | {(cell.name,) for cell in [*notebook.solution_cells, *notebook.source_cells]}


def prepare(course: Path) -> None:
    with Book(Course(course)) as book:
        book.prepare("hw1", Master.of(course / "source/hw1/p1.ipynb"))


def forget_a_test(course: Path) -> None:
    """Leave the gradebook as a run does that is killed while it saves the cells."""
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        book.db.delete(book.find_grade_cell("x", "p1", "hw1"))
        book.db.delete(book.find_source_cell("x", "p1", "hw1"))
        book.db.commit()


def test_cells_that_a_killed_run_has_not_saved_are_saved_by_the_next(course):
    prepare(course)
    whole = cells_in_the_gradebook(course)
    assert whole == {("x", 2), ("answer_x",), ("x",)}
    forget_a_test(course)
    assert cells_in_the_gradebook(course) == {("answer_x",)}
    assert grade(course)["ada/hw1/p1"]["score"] == 2
    assert cells_in_the_gradebook(course) == whole
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        assert book.find_submission_notebook("p1", "hw1", "ada").score == 2


def test_where_submissions_refer_to_other_cells_the_run_says_so(course):
    grade(course)
    forget_a_test(course)
    with pytest.raises(CommandError, match="The cells for hw1/p1 in the gradebook differ from those in source/"):
        grade(course, again=True)


def test_points_that_were_changed_in_source_are_the_gradebooks(course):
    grade(course)
    write(course / "source/hw1/p1.ipynb", cells(points=5))
    assert grade(course, again=True)["ada/hw1/p1"]["max_score"] == 5
    assert ("x", 5) in cells_in_the_gradebook(course)


def test_a_notebook_in_which_nothing_is_graded_need_not_be_handed_in(course):
    write(course / "source/hw1/reading.ipynb", new_notebook(cells=[new_code_cell("1 + 1")]))
    assert set(grade(course)) == {"ada/hw1/p1", "ada/hw1/p2"}


# Magics in an instructor's test


def test_a_test_cell_may_hold_magics(course):
    document = cells()
    document.cells[1].source = "%matplotlib inline\nassert x == 1"
    master = Master.of(write(course / "source/hw1/p1.ipynb", document))
    steps = plan(read(course / "submitted/ada/hw1/p1.ipynb"), master).steps
    assert [(step.kind, step.name) for step in steps] == [("run", ""), ("test", "x")]


def checking(course: Path, first: str, test: str) -> Path:
    """Write a source notebook with another first cell and another test; return its path."""
    document = cells()
    document.cells[0].source, document.cells[1].source = f"{first}\nx = 1", test
    return write(course / "source/hw1/p1.ipynb", document)


BEGIN = 'from coursekit import begin\nbegin("ch00_start")'


@pytest.mark.parametrize(
    ("first", "test"),
    [
        (BEGIN, 'check("x", x)\nassert x == 1'),
        (BEGIN, '%matplotlib inline\nquiz("x", x)'),
        (BEGIN, 'check("x", 1)'),
        (BEGIN + "\nimport coursekit", 'coursekit.check("x", x)'),
        (BEGIN + "\nimport coursekit as kit", 'kit.quiz("x", x)'),
        (BEGIN + "\nfrom coursekit import check as c", 'c("x", x)'),
        (BEGIN.replace('"', "'"), 'check("x", x)\nassert x == 1'),
        ("from coursekit import check", 'check("x", x)\nassert x == 1'),
        ("from coursekit import *", 'check("x", x)'),
    ],
)
def test_a_check_that_nobody_would_hear_is_refused(course, first, test):
    path = checking(course, first, test)
    with pytest.raises(CommandError, match="the test cells x must be") as error:
        Run(course / "submitted", Options()).masters()
    assert str(path) in str(error.value)
    assert ("begins no chapter" in str(error.value)) == ("begin" not in first)


@pytest.mark.parametrize(
    "first",
    [
        "from coursekit import begin\nbegin('ch00_start')",
        "from coursekit import begin as start; start( chapter='ch00_start' )",
        'import coursekit as kit\n%matplotlib inline\ncontents = kit.begin("ch00_start")',
    ],
)
def test_a_chapter_is_known_however_it_is_begun(course, first):
    assert Master.of(checking(course, first, "pass")).chapter == "ch00_start"


@pytest.mark.parametrize(
    ("first", "reason"),
    [(BEGIN, "ch00_start has no exercise 'x'"), (BEGIN.replace("ch00_start", "ch77"), "There is no chapter 'ch77'")],
)
def test_a_check_that_the_chapter_does_not_have_is_refused(course, first, reason):
    checking(course, first, 'check("x", x)')
    with pytest.raises(CommandError, match=reason) as error:
        grade(course)
    assert "hw1/p1.ipynb" in str(error.value)


def test_a_function_check_of_the_instructors_own_is_a_test_of_their_own(course):
    path = checking(course, "def check(name, value): assert value", 'check("x", x)')
    assert Run(course / "submitted", Options()).masters()["hw1", "p1"].mixed() == []
    assert plan(read(path), Master.of(path)).steps[-1].kind == "test"


def test_no_chapter_mixes_a_check_with_other_code():
    assert {path.stem: names for path in SOLUTIONS.glob("*.ipynb") if (names := Master.of(path).mixed())} == {}


def test_a_notebook_that_is_too_large_hears_how_to_make_it_smaller(tmp_path):
    path = tmp_path / "large.ipynb"
    path.touch()
    os.truncate(path, 2**30)
    with pytest.raises(NotGradable, match="20 MB is the limit, so clear its outputs, in JupyterLab with Edit"):
        read(path)
