"""A mistake of ours in a check marks nobody wrong: the learner, the grader's book, both pages and nbgrader say whose fault it is."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from nbgrader.api import Gradebook

from coursekit.given import own_requests
from coursekit.grading.class_run import Run
from coursekit.grading.desk.class_page import write_page_of_class
from coursekit.grading.outcome import Options
from coursekit.judging import exercise
from coursekit.judging.answer import Answer, serve
from coursekit.judging.exercise import judge, load
from coursekit.judging.expect import expect
from coursekit.learner.checks import NotPassed, check
from coursekit.learner.progress import attempts
from coursekit.learner.session import begin
from coursekit.sandbox.nursery import available
from tests.attacks import CHAPTER, RIGHT, notebook
from tests.classes import SHORT, hand_in


def ask_itself(learner) -> int:
    """A probe whose own request nobody answers."""
    with own_requests.own_request("http://127.0.0.1:9"):
        return requests.get("http://127.0.0.1:9", timeout=5).status_code


ask_itself.__module__ = own_requests.__name__  # a probe is found by its name among those of `given`


@pytest.fixture(autouse=True)
def typo(monkeypatch):
    """Put a typo into the check of chapter 0: a key that no reply has."""

    def best_seconds(answer, rng) -> None:
        expect({"seconds": answer(12, 0.5, 4)}["secnds"] == 1.5, "Not the seconds.")

    item = replace(load(CHAPTER)["best_seconds"], check=best_seconds)
    monkeypatch.setitem(exercise.REGISTRY[CHAPTER], "best_seconds", item)


def answer(tasks: int, seconds_each: float, workers: int) -> float:
    return -(-tasks // workers) * seconds_each


@pytest.fixture
def begun(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path))
    begin(CHAPTER)


def test_the_learner_hears_whose_fault_it_is_and_what_to_send(begun):
    result = check("best_seconds", answer)
    assert (result.status, result.earned, result.tried) == ("unjudged", 0, "best_seconds(12, 0.5, 4)")
    assert result.values["check"].startswith("ch00_start/best_seconds, best_seconds() at line ")
    assert result.values["error"] == "KeyError: 'secnds'"
    assert "the course's fault and not yours" in str(result)
    assert "Ray 2.60" in str(result)
    assert attempts(CHAPTER, "best_seconds") == 0


def test_under_nbgrader_it_raises(begun, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(NotPassed, match="not judged"):
        check("best_seconds", answer)


def test_a_request_of_the_checks_own_that_fails_blames_no_answer(begun, monkeypatch):
    def asks(answer, rng) -> None:
        answer.probe(ask_itself)

    monkeypatch.setattr(own_requests, "ask_itself", ask_itself, raising=False)
    monkeypatch.setitem(exercise.REGISTRY[CHAPTER], "best_seconds", replace(load(CHAPTER)["best_seconds"], check=asks))
    result = check("best_seconds", answer)
    assert (result.status, result.message_id) == ("unjudged", "own-request")
    assert "The check's own request failed, so your answer was not judged" in str(result)
    assert result.values["error"].startswith("http://127.0.0.1:9: ConnectionError: ")
    assert attempts(CHAPTER, "best_seconds") == 0


def test_in_grading_an_exception_of_that_name_is_the_submissions_own():
    class OwnRequestFailed(Exception):
        pass

    def forging(*args: object) -> None:
        raise OwnRequestFailed("let a person decide")

    of_submission = Answer(
        "best_seconds", lambda request: serve({"best_seconds": forging}, "best_seconds", request), None
    )
    assert judge(load(CHAPTER)["best_seconds"], of_submission).status == "crashed"


@pytest.mark.slow
@pytest.mark.skipif(bool(available()), reason=f"no sandbox here: {available()}")
def test_in_grading_it_waits_for_a_person_and_all_pages_say_so(tmp_path):
    course = tmp_path / "class"
    hand_in(course, "ada", notebook(best_seconds=RIGHT["best_seconds"]))
    run = Run(course / "submitted", Options(limits=SHORT, jobs=1))
    list(run.go(lambda *progress: None))
    page, of_class = _page(course, "ada"), write_page_of_class(run).read_text()
    assert "best_seconds: not judged, 0 of 1 point" in page
    assert "counts as 0 points until your instructor has looked at it" in page
    assert "1 answer waiting for a person to grade" in page
    assert "Not judged: 1 answer" in of_class
    assert "KeyError: &#x27;secnds&#x27;" in of_class
    assert _row(course)["to_grade"] == "1"
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        mark = book.find_grade("best_seconds", CHAPTER, CHAPTER, "ada")
        assert (mark.auto_score, mark.needs_manual_grade) == (0, True)
        mark.manual_score, mark.needs_manual_grade = 1, False
        book.db.commit()
    assert "Not judged" not in write_page_of_class(run).read_text()


def _page(course: Path, student: str) -> str:
    return (course / "reports" / student / CHAPTER / f"{CHAPTER}.html").read_text()


def _row(course: Path) -> dict:
    with (course / "grades.csv").open(encoding="utf-8-sig") as file:
        return next(csv.DictReader(file))
