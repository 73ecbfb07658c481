"""A class in which most students attack the grader: each ends with an honest score and a reason, and nobody else notices."""

import csv
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbgrader.api import Gradebook

from coursekit.basics.cards import prose
from coursekit.grading.student_page import NOT_WRITTEN
from coursekit.sandbox.nursery import available
from tests.attacks import GUARD, MARK, Attack, attacks, placed
from tests.classes import HONEST, SHORT, Machine, grade, hand_in_honestly, lines, said
from tests.live_markup import live_in
from tests.nbgrader_courses import nbgrader

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")]
UNENDING = [attack for attack in attacks() if attack.reason in ("stopped after", "ran longer than")]
OTHERS = [attack for attack in attacks() if attack not in UNENDING]
# What is to end by anything but the clock has time, and more processes than fit into the memory.
PATIENT = replace(SHORT, cell_seconds=100, total_seconds=300, memory_mb=1000, processes=600)


def class_of(members: list[Attack], course: Path, port: int = 0, **options: object) -> SimpleNamespace:
    """Grade honest students and attackers together; return the records and what the machine says."""
    hand_in_honestly(course)
    for attack in members:
        attack.hand_in(course, port)
    machine, memory = Machine(), peak_mb()
    records = grade(course, **options)
    return SimpleNamespace(
        course=course, records=records, traces=machine.traces(), grader_mb=peak_mb() - memory, members=members
    )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.fixture(scope="module")
def listeners() -> Iterator[list[socket.socket]]:
    """Yield servers of this machine that nobody may reach: a port, and a name in the list of sockets."""
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as name:
        name.bind(f"\0{MARK} {port.getsockname()[1]}")
        name.listen()
        for server in (port, name):
            server.setblocking(False)
        yield [port, name]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, listeners: list[socket.socket]) -> SimpleNamespace:
    port = listeners[0].getsockname()[1]
    return class_of(OTHERS, tmp_path_factory.mktemp("class"), port, limits=PATIENT)


@pytest.fixture(scope="module")
def graded_by_the_clock(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return class_of(UNENDING, tmp_path_factory.mktemp("class"), limits=SHORT)


def check_outcome(attack: Attack, graded: SimpleNamespace) -> None:
    keys = [key for key in graded.records if key.startswith(f"{attack.name}/")]
    exact = f"{attack.name}/{attack.chapter}/{attack.chapter}"
    record = graded.records[exact if exact in keys else keys[0]]
    score = record["score"] if record["outcome"] == "graded" else None
    assert (score, attack.name) == (attack.score, attack.name), record["reason"]
    assert attack.reason in said(record)
    check_that_the_page_says_why(record, graded.course)


def check_that_the_page_says_why(record: dict, course: Path) -> None:
    """Each point that was lost has a reason, which the student's page shows; so has a notebook that could not be graded."""
    page = (course / "reports" / f"{record['key']}.html").read_text(encoding="utf-8")
    lost = [
        NOT_WRITTEN if result["message_id"] == "todo" else result["message"]
        for result in record["results"].values()
        if result["earned"] < result["points"]
    ]
    reasons = lost if record["outcome"] == "graded" else [record["reason"][:1].upper() + record["reason"][1:]]
    assert all(reasons)
    assert [reason for reason in reasons if prose(reason) not in page] == []


@pytest.mark.parametrize("attack", OTHERS, ids=lambda attack: attack.name)
def test_an_attack_ends_with_its_honest_score_and_a_reason(attack, graded):
    check_outcome(attack, graded)


@pytest.mark.parametrize("attack", UNENDING, ids=lambda attack: attack.name)
def test_what_goes_on_without_end_is_ended_and_costs_nobody_anything(attack, graded_by_the_clock):
    check_outcome(attack, graded_by_the_clock)
    assert graded_by_the_clock.traces == []
    check_honest_students(graded_by_the_clock)


def check_honest_students(graded: SimpleNamespace) -> None:
    scores = {student: points for student, (points, _) in HONEST.items()} | {"honest_unsolved": 0}
    for student, points in scores.items():
        record = graded.records[f"{student}/ch00_start/ch00_start"]
        assert (record["outcome"], record["score"], record["reason"]) == ("graded", points, "")
        check_that_the_page_says_why(record, graded.course)


def test_honest_students_among_them_keep_their_points(graded):
    check_honest_students(graded)


def test_every_submission_has_one_line_one_row_and_one_page(graded):
    keys = Counter(record["key"] for record in lines(graded.course / "results.jsonl"))
    assert set(keys.values()) == {1}
    assert set(keys) == set(graded.records)
    rows = list(csv.DictReader((graded.course / "grades.csv").open(encoding="utf-8")))
    assert len(rows) == len(keys)
    assert len(list(graded.course.glob("reports/*/*/*.html"))) == len(keys)
    students = {path.name for path in (graded.course / "submitted").iterdir()}
    assert {row["student"] for row in rows} == students


def test_the_gradebook_has_the_same_scores(graded):
    with Gradebook(f"sqlite:///{graded.course}/gradebook.db") as book:
        for attack in graded.members:
            assert book.find_submission(attack.chapter, attack.name).score == (attack.score or 0)
        for student, (points, _) in HONEST.items():
            assert book.find_submission("ch00_start", student).score == points


def test_the_machine_is_clean_afterwards(graded):
    assert graded.traces == []


def test_nobody_reached_a_port_or_a_socket_of_the_machine(graded, listeners):
    for server in listeners:
        with pytest.raises(BlockingIOError):
            server.accept()


def test_the_graders_memory_is_bounded_whatever_comes_back(graded):
    assert graded.grader_mb < 500


def test_what_a_submission_prints_or_raises_is_text_on_the_pages(graded):
    for path in graded.course.glob("reports/*/*/*.html"):
        text = path.read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<img" not in text
        assert len(text) < 200_000


def test_what_a_submission_says_is_text_on_the_pages_of_nbgrader(graded):
    notebooks = [nbformat.read(path, 4) for path in graded.course.glob("autograded/*/*/*.ipynb")]
    texts = [cell for notebook in notebooks for cell in notebook.cells if cell.cell_type == "markdown"]
    assert {mark for cell in texts for mark in live_in(cell.source, cell.get("attachments"))} == set()


def test_a_name_that_begins_like_a_formula_is_text_in_the_table(graded):
    rows = csv.reader((graded.course / "grades.csv").open(encoding="utf-8"))
    assert [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))] == []


def test_secret_files_that_were_linked_to_are_not_copied(graded):
    names = {path.name for path in (graded.course / "autograded/link_beside_the_notebook/ch00_start").iterdir()}
    assert names == {"ch00_start.ipynb"}


def test_no_attack_does_anything_outside_a_sandbox():
    with pytest.raises(AssertionError, match="must never run anywhere else"):
        exec(GUARD, {})


ONLY_LOOKS = ["read_the_solutions", "read_other_submissions", "read_the_seed", "reach_the_network", "search_the_frames"]


@pytest.mark.parametrize(
    "attack", [attack for attack in attacks() if attack.name in ONLY_LOOKS], ids=lambda it: it.name
)
def test_an_attack_that_looks_for_something_finds_it_where_nothing_hides_it(attack, graded, listeners):
    names: dict = {}
    exec(placed(attack.cells["best_seconds"], graded.course, listeners[0].getsockname()[1]), names)
    assert names["best_seconds"](12, 0.5, 4) == 1.5


def test_every_attack_says_what_it_tries_and_there_are_forty():
    assert len(attacks()) >= 40
    assert all(attack.tries.endswith(".") and "\n" not in attack.tries for attack in attacks())
    assert len({attack.tries for attack in attacks()}) == len(attacks())


@pytest.mark.nightly
def test_nbgrader_makes_its_own_pages_of_everything_that_was_graded(graded):
    nbgrader(graded.course, "generate_feedback", "ch00_start")
    students = {record["student"] for record in graded.records.values() if record["outcome"] == "graded"}
    pages = {path.name for path in (graded.course / "feedback").iterdir()}
    assert pages == students - {"probe_replaced_by_a_constant"}  # that one is of another chapter
