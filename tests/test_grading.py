"""`coursekit grade`: continues where it was, keeps its seed secret, and what it leaves works with nbgrader's tools."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from filelock import FileLock
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from rich.console import Console
from typer.testing import CliRunner

from coursekit.basics.errors import CommandError
from coursekit.basics.journal import Journal
from coursekit.basics.paths import SOLUTIONS
from coursekit.cli import app
from coursekit.grading.class_run import Run
from coursekit.grading.desk import grade_command
from coursekit.grading.exclusive_time import Turns
from coursekit.grading.gradebook import Book
from coursekit.grading.grading_plan import Master, imports_of
from coursekit.grading.nbgrader_settings import config_of
from coursekit.grading.submission import read
from coursekit.grading.submission_grader import Grader
from coursekit.sandbox import accounts
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import Nursery, available
from tests.attacks import code_cell, grade_id, notebook
from tests.classes import SHORT, WRONG, grade, hand_in, hand_in_honestly, lines, said
from tests.nbgrader_courses import formgrader, nbgrader

CHAPTER = "ch00_start"
needs_sandbox = pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(SHORT) as nursery:
        yield nursery


@pytest.fixture
def one_nursery(nursery, monkeypatch) -> None:
    """Let all runs of a test share one nursery, which takes seconds to start and has imported everything."""
    monkeypatch.setattr(nursery, "bring", lambda imports: None)
    monkeypatch.setattr("coursekit.grading.class_run.Run.new_nursery", lambda *_: contextlib.nullcontext(nursery))


@pytest.fixture
def course(tmp_path, one_nursery) -> Path:
    hand_in_honestly(tmp_path)
    return tmp_path


def tried(record: dict) -> str:
    text: str = record["results"]["best_seconds"]["tried"]
    return text


# Seeds


@needs_sandbox
@pytest.mark.slow
def test_without_a_seed_every_run_has_other_inputs_and_with_one_the_same(course):
    wrong = f"honest_half/{CHAPTER}/{CHAPTER}"
    first = tried(grade(course)[wrong])
    assert tried(grade(course, again=True)[wrong]) != first
    seeded = tried(grade(course, again=True, seed=5)[wrong])
    assert tried(grade(course, again=True, seed=6)[wrong]) != seeded
    assert tried(grade(course, again=True, seed=5)[wrong]) == seeded


@needs_sandbox
@pytest.mark.slow
def test_all_students_of_a_run_meet_the_same_inputs(course):
    for number in range(3):
        hand_in(course, f"also_wrong{number}", notebook(best_seconds=WRONG))
    records = grade(course)
    assert len({tried(record) for key, record in records.items() if "wrong" in key or "half" in key}) == 1


@needs_sandbox
@pytest.mark.slow
def test_the_seed_is_kept_for_its_owner_only_and_another_one_needs_a_word(course):
    grade(course)
    state = course / ".coursekit-run.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    with pytest.raises(CommandError, match="--again"):
        grade(course, seed=1)
    assert "seed" not in (course / "results.jsonl").read_text()


def test_a_seed_below_zero_is_refused(tmp_path):
    hand_in(tmp_path, "anna", notebook())
    with pytest.raises(CommandError, match="-5 is not"):
        grade(tmp_path, seed=-5)


# Interrupted and continued

SLOW = [code_cell(f"import time\ntime.sleep(0.{number % 5 + 3})") for number in range(4)]


@pytest.fixture
def long_course(tmp_path) -> Path:
    for number in range(8):
        document = notebook()
        hand_in(tmp_path, f"student{number}", document | {"cells": SLOW + document["cells"]})
    return tmp_path


def start(course: Path) -> subprocess.Popen:
    """Start `coursekit grade` as a script starts a job in the background: SIGINT is ignored."""
    grader = [
        "env",
        "--ignore-signal=INT",
        sys.executable,
        "-m",
        "coursekit.cli",
        "grade",
        str(course / "submitted"),
        "--jobs",
        "2",
    ]
    return subprocess.Popen(grader, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_lines(course: Path, count: int, grader: subprocess.Popen) -> None:
    path, deadline = course / "results.jsonl", time.monotonic() + 120
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert grader.poll() is None, grader.stdout.read()  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_a_run_that_is_ended_in_the_middle_continues_and_grades_nothing_twice(long_course, number):
    grader = start(long_course)
    wait_for_lines(long_course, 3, grader)
    inside = psutil.Process(grader.pid).children(recursive=True)
    grader.send_signal(number)
    said_at_the_end = grader.communicate(timeout=60)[0]
    assert number == signal.SIGKILL or "run the same command again" in " ".join(said_at_the_end.split())
    assert psutil.wait_procs(inside, timeout=60)[1] == []
    before, seed = lines(long_course / "results.jsonl"), (long_course / ".coursekit-run.json").read_text()
    assert 3 <= len(before) < 8
    assert number == signal.SIGKILL or "not graded yet" in (long_course / "final.csv").read_text()

    again = start(long_course)
    assert again.wait(120) == 0, again.stdout.read()  # type: ignore[union-attr]
    after = lines(long_course / "results.jsonl")
    assert after[: len(before)] == before
    assert sorted(record["student"] for record in after) == [f"student{number}" for number in range(8)]
    assert {record["score"] for record in after} == {2}
    assert (long_course / ".coursekit-run.json").read_text() == seed
    groups = {home for controller in ("memory", "pids", "cpuacct", "cpu") for home in accounts._homes(controller)}
    assert [path for home in groups for path in home.glob(f"coursekit-{grader.pid}-*")] == []


def test_a_line_that_was_cut_off_is_no_outcome_and_spoils_no_other(tmp_path):
    journal = Journal(tmp_path / "results.jsonl")
    journal.add({"key": "first"})
    with journal.path.open("a") as file:
        file.write('{"key": "seco')
    journal.add({"key": "third"})
    assert [record["key"] for record in journal.lines()] == ["first", "third"]


@needs_sandbox
@pytest.mark.slow
def test_only_what_is_new_or_was_handed_in_again_is_graded(course):
    grade(course)
    hand_in(course, "late", notebook())
    changed = course / f"submitted/honest_half/{CHAPTER}/{CHAPTER}.ipynb"
    changed.write_text(json.dumps(notebook()))
    assert {key: record["score"] for key, record in grade(course).items() if "honest_unsolved" not in key} == {
        f"{student}/{CHAPTER}/{CHAPTER}": 2 for student in ("honest_solved", "honest_half", "late")
    }
    assert len(lines(course / "results.jsonl")) == 3 + 2


@needs_sandbox
@pytest.mark.slow
def test_one_student_is_graded_again_and_all_others_keep_their_outcome(course):
    before = grade(course)
    seed = json.loads((course / ".coursekit-run.json").read_text())["seed"]
    grade(course, only=("honest_half",), again=True)
    after = {record["key"]: record for record in lines(course / "results.jsonl")}
    wrong = f"honest_half/{CHAPTER}/{CHAPTER}"
    assert {key: record for key, record in after.items() if key != wrong} == {
        key: record for key, record in before.items() if key != wrong
    }
    assert tried(after[wrong]) != tried(before[wrong])
    state = json.loads((course / ".coursekit-run.json").read_text())
    assert [state["seed"] != seed, [run["seed"] for run in state["earlier"]]] == [True, [seed]]
    assert before[wrong]["when"] <= state["earlier"][0]["until"] <= after[wrong]["when"]
    assert len(lines(course / "results-1.jsonl")) == len(lines(course / "results.jsonl")) == 3
    assert len((course / "grades.csv").read_text().splitlines()) == 1 + 3


@pytest.mark.slow
def test_two_graders_in_one_course_do_not_meet(tmp_path):
    hand_in(tmp_path, "anna", notebook())
    with FileLock(tmp_path / ".coursekit-run.lock"), pytest.raises(CommandError, match="Another `coursekit grade`"):
        grade(tmp_path)


# Outcomes


@needs_sandbox
@pytest.mark.slow
def test_a_nursery_that_is_killed_in_the_middle_costs_nobody_anything(long_course):
    def kill_the_nursery() -> None:
        while not (
            ours := [child for child in psutil.Process().children() if child not in before and child.children()]
        ):
            time.sleep(0.1)
        while len(ours[0].children(recursive=True)) < 4:  # until two submissions are under way
            time.sleep(0.1)
        ours[0].kill()

    before = psutil.Process().children()
    killer = threading.Thread(target=kill_the_nursery, daemon=True)
    killer.start()
    records = grade(long_course, jobs=2)
    assert not killer.is_alive()
    assert {(record["outcome"], record["score"], record["reason"]) for record in records.values()} == {
        ("graded", 2, "")
    }


@needs_sandbox
@pytest.mark.slow
def test_a_submission_that_takes_too_long_in_all_keeps_what_it_earned_before(nursery, tmp_path):
    document = notebook()
    cells = [code_cell("import time\ntime.sleep(1)") for _ in range(9)]
    master = Master.of(SOLUTIONS / f"{CHAPTER}.ipynb")
    position = next(
        index for index, cell in enumerate(document["cells"]) if grade_id(cell) == "answer_what_distribution_costs"
    )
    document["cells"][position:position] = cells
    path = hand_in(tmp_path, "anna", document)
    graded = Grader(nursery, Limits(total_seconds=4), 1).grade(read(path), master)
    assert {name: result.earned for name, result in graded.results.items()} == {
        "best_seconds": 1,
        "what_distribution_costs": 0,
    }
    assert "took longer than 4 s in all" in graded.results["what_distribution_costs"].message
    assert graded.seconds < 15


@needs_sandbox
@pytest.mark.slow
def test_an_error_of_the_grader_itself_is_one_students_reason_and_no_others_loss(course, monkeypatch):
    write = Book._write_autograded

    def fails_once(self, submission, graded):
        if submission.student == "honest_half":
            raise ValueError("something that nobody has thought of")
        write(self, submission, graded)

    monkeypatch.setattr(Book, "_write_autograded", fails_once)
    records = grade(course)
    assert "please report this (ValueError" in said(records[f"honest_half/{CHAPTER}/{CHAPTER}"])
    assert records[f"honest_solved/{CHAPTER}/{CHAPTER}"]["score"] == 2
    assert len(lines(course / "results.jsonl")) == 3


@needs_sandbox
@pytest.mark.slow
def test_a_single_notebook_is_graded_beside_itself(tmp_path, one_nursery):
    path = tmp_path / "anna.ipynb"
    looks = (
        "import os\nassert not {'.coursekit-run.json', 'key', 'ben.ipynb'} & {n for *_, ns in os.walk('.') for n in ns}"
    )
    path.write_text(json.dumps(notebook(first=looks)))
    (tmp_path / "key").write_text("what else lies there is nobody's business")
    for _ in range(2):  # the second time, the seed and the outcomes of the first lie there
        [row] = Run(path, grade_command.Options(limits=SHORT, again=True)).go(lambda *progress: None)
    assert [row[name] for name in ("student", "assignment", "score", "reason")] == ["anna", CHAPTER, 2, ""]
    assert (tmp_path / f"graded/reports/anna/{CHAPTER}/{CHAPTER}.html").exists()
    assert [file.name for file in tmp_path.glob("graded/autograded/*/*/*")] == [f"{CHAPTER}.ipynb"]


def test_who_measures_time_runs_alone_and_is_not_charged_for_waiting():
    turns, running, seen, all_there = Turns(), [], [], threading.Barrier(3)

    def beside_others() -> None:
        with turns.shared():
            running.append("shared")
            all_there.wait()
            while not turns._waiting_alone:
                time.sleep(0.01)
            time.sleep(0.2)
            running.remove("shared")

    def alone() -> None:
        all_there.wait()
        with turns.alone() as waited:
            seen.append((list(running), waited > 0.1))

    threads = [threading.Thread(target=work) for work in (beside_others, beside_others, alone)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [([], True)]


# nbgrader's tools on the result


@needs_sandbox
@pytest.mark.slow
def test_formgrader_feedback_and_export_of_nbgrader_work_on_the_result(course, tmp_path_factory):
    grade(course)
    api = NbGraderAPI(config=config_of(course))
    api.coursedir.root = str(course)
    listed = {row["student"]: row for row in api.get_submissions(CHAPTER)}
    scores = {"honest_solved": 2, "honest_half": 1, "honest_unsolved": 0}
    assert {student: row["score"] for student, row in listed.items()} == scores
    assert all(row["autograded"] and not row["needs_manual_grade"] for row in listed.values())
    assert [row["score"] for row in api.get_notebook_submissions(CHAPTER, CHAPTER)]
    with formgrader(course, tmp_path_factory.mktemp("runtime")) as page:
        check_the_pages_of_formgrader(page, scores)
    nbgrader(course, "generate_feedback", CHAPTER)
    pages = {path.parts[-3]: path.read_text() for path in course.glob(f"feedback/*/{CHAPTER}/{CHAPTER}.html")}
    for student, points in scores.items():
        assert f"Score: {points:.1f} / 2.0" in pages[student]
    assert "one task is left, and it takes" in pages["honest_half"]
    nbgrader(course, "export", "--to=for_the_office.csv")
    rows = {row["student_id"]: row for row in csv.DictReader((course / "for_the_office.csv").open())}
    assert {student: float(row["score"]) for student, row in rows.items()} == scores


def check_the_pages_of_formgrader(page: Callable[[str], str], scores: dict[str, int]) -> None:
    """Open an assignment's page, the list that it fetches, and the page on which a person grades a student."""
    assert f'var assignment_id = "{CHAPTER}"' in page(f"gradebook/{CHAPTER}")
    rows = json.loads(page(f"api/submitted_notebooks/{CHAPTER}/{CHAPTER}"))
    assert {row["student"]: row["score"] for row in rows} == scores
    half = page("submissions/" + next(row["id"] for row in rows if row["student"] == "honest_half"))
    assert ">honest_half</a>" in half
    assert "best_seconds: wrong, 0 of 1 point" in half


@needs_sandbox
@pytest.mark.slow
def test_only_who_is_named_is_graded_and_in_the_gradebook_that_the_courses_configuration_names(
    course, tmp_path_factory
):
    url = f"sqlite:///{tmp_path_factory.mktemp('elsewhere')}/office.db"
    (course / "nbgrader_config.py").write_text(f"get_config().CourseDirectory.db_url = {url!r}\n")
    assert list(grade(course, only=("honest_half",))) == [f"honest_half/{CHAPTER}/{CHAPTER}"]
    with Gradebook(url) as book:
        assert [student.id for student in book.students] == ["honest_half"]
        assert book.find_submission(CHAPTER, "honest_half").score == 1
    assert not (course / "gradebook.db").exists()


# The command


def failing(*arguments: str) -> str:
    shown = CliRunner().invoke(app, ["grade", *arguments])
    assert shown.exit_code == 1
    assert "Traceback" not in shown.output
    return shown.output


def test_a_folder_that_is_not_there_is_named(tmp_path):
    assert "There is no" in failing(str(tmp_path / "nowhere"))


@needs_sandbox
def test_an_empty_folder_is_told_what_is_expected(tmp_path):
    (tmp_path / "submitted").mkdir()
    output = failing(str(tmp_path / "submitted"))
    assert "<student>/<assignment>/*.ipynb" in output
    assert CHAPTER in output


@needs_sandbox
def test_an_unknown_student_is_told_what_only_takes(tmp_path):
    hand_in(tmp_path, "anna", notebook())
    assert "matches --only nobody" in failing(str(tmp_path / "submitted"), "--only", "nobody")


@pytest.mark.parametrize(
    ("chapter", "code", "imports"),
    [
        ("", "assert double(3) == 6", "base"),
        ("", "import pandas as pd", "plain"),
        (CHAPTER, "1", "ray"),
        (CHAPTER, "import torch", "all"),
        ("ch08_rollouts", "1", "all"),  # what it hands out takes Gymnasium
    ],
)
def test_sandboxes_begin_with_what_the_most_demanding_notebook_needs(chapter, code, imports):
    cells = [nbformat.v4.new_code_cell(code)]
    demanding = Master("one", nbformat.v4.new_notebook(cells=cells), chapter)
    assert imports_of([Master("other", nbformat.v4.new_notebook(), ""), demanding]) == imports


def test_where_no_sandbox_can_be_made_it_stops_and_says_so(tmp_path, monkeypatch):
    hand_in(tmp_path, "anna", notebook())
    (tmp_path / "results.jsonl").write_text("an earlier run's\n")
    monkeypatch.setattr(Nursery, "refusal", lambda nursery: "this is a toaster")
    output = failing(str(tmp_path / "submitted"), "--again")
    assert "this is a toaster" in output
    assert "--no-sandbox" in output
    assert {path.name for path in tmp_path.iterdir()} == {"submitted", "results.jsonl"}
    assert (tmp_path / "results.jsonl").read_text() == "an earlier run's\n"


def test_it_says_what_it_does_not_go_by_how_many_are_done_how_many_failed_how_fast_and_the_time_left(
    tmp_path, monkeypatch
):
    class Played(SimpleNamespace):
        unheard = staticmethod(lambda: ["nbgrader_config.py sets something"])

        def go(self, report: Callable) -> list[dict]:
            whose = {"student": "s01", "assignment": "hw1"}
            records = [whose | {"key": key, "outcome": "graded", "reason": ""} for key in "ab"]
            records.append(whose | {"key": "c", "outcome": "not gradable", "reason": "no cells"})
            for done, record in enumerate(records, 1):
                report(record, done, 4)
            return records

    shown = io.StringIO()
    monkeypatch.setattr(grade_command, "Console", lambda stderr: Console(file=shown, force_terminal=True, width=120))
    monkeypatch.setattr(
        grade_command,
        "Run",
        lambda submissions, options, nursery: Played(folder=tmp_path, alone=False, outsiders=[], moved=[], doubts={}),
    )
    grade_command.grade_class(tmp_path, grade_command.Options())
    text = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", shown.getvalue())
    assert re.search(r"\d+ per minute, 1 not gradable .* 3/4 [-\d]+:[-\d]+:[-\d]+", text)
    assert "2 graded, 1 not gradable" in text
    assert text.startswith("nbgrader_config.py sets something\n")


@pytest.mark.slow
def test_without_a_sandbox_it_warns_and_grades_all_the_same(tmp_path):
    hand_in_honestly(tmp_path)
    grader = [sys.executable, "-m", "coursekit.cli", "grade", str(tmp_path / "submitted"), "--no-sandbox"]
    run = subprocess.run(grader, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"})
    assert "can read and delete whatever you can" in run.stderr
    assert "3 graded, 0 not gradable" in run.stderr
    assert [record["score"] for record in sorted(lines(tmp_path / "results.jsonl"), key=lambda it: it["key"])] == [
        1,
        2,
        0,
    ]
