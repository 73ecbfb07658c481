"""The pages of a class are in the language that `class.toml` says, for the instructor and for the students who get them back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coursekit.basics.readers_language import speaking
from coursekit.grading.class_settings import Settings, settings_of
from coursekit.grading.desk.class_page import page_of_class, parts_of
from coursekit.grading.student_page import write_page
from coursekit.judging.exercise import load
from coursekit.judging.result import Result
from tests.crowds import CHAPTER, history


@pytest.fixture
def german() -> Iterator[None]:
    with speaking("de"):
        yield


def test_the_classs_language_is_in_its_settings(tmp_path):
    assert settings_of(tmp_path).language == "en"
    (tmp_path / "class.toml").write_text('language = "zh"\n')
    assert settings_of(tmp_path).language == "zh"


def test_the_classs_page_is_told(german):
    students = {f"s{place + 1:03}": "" for place in range(30)}
    page = page_of_class("course", parts_of(history(30), {}), students, {}, Settings(Path("class.toml")))
    assert '<html lang="de">' in page
    for words_of_page in (
        "Nichts abgegeben: ",
        "Die schwersten Aufgaben",
        "Die häufigsten Meldungen",
        "mittlere Punkte",
    ):
        assert words_of_page in page
    assert "tree_sum: falsch" in page
    assert "Der letzte Aufruf hatte noch nicht begonnen" in page
    assert "handed in" not in page


def test_a_students_page_is_told_in_the_classs_language(german, tmp_path):
    quiz = load(CHAPTER)["order_of_get"]
    chosen = Result(CHAPTER, quiz.name, "quiz", "wrong", 1, quiz.options["a"][1], "quiz-a")
    line = next(each for each in history(30) if each["outcome"] == "graded" and each["assignment"] == CHAPTER)
    edited = "the test cell as_task was edited: the original was used"
    todo = Result(CHAPTER, "batched", "exercise", "todo", 2, "Write your answer.", "todo")
    results = line["results"] | {quiz.name: chosen.as_dict(), "batched": todo.as_dict()}
    write_page(tmp_path / "a.html", line | {"results": results, "notes": [edited], "score": 3}, None, None)
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<b>3/14 Punkte</b>" in page
    assert "Die Testzelle as_task wurde bearbeitet: Das Original wurde verwendet." in page
    assert "Du rufst <code>ray.get([a, b, c])</code> auf" in page
    assert "So wurde bewertet: " in page
    assert "Du hast dazu keine Antwort abgegeben." in page
    assert "bewertet am 2026-11-23 um " in page


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("no notebook was handed in", "Es wurde kein Notebook abgegeben."),
        ("no notebook was handed in, but a.pdf", "Es wurde kein Notebook abgegeben, sondern a.pdf."),
        (
            "no notebook was handed in, but a.pdf (and 1 other file), which is a PDF. Hand in the notebook that it was made from",
            "Es wurde kein Notebook abgegeben, sondern a.pdf (und 1 weitere Datei); das ist ein PDF. Gib das Notebook ab, aus dem es entstanden ist.",
        ),
        (
            "no notebook was handed in, but b.zip, which is a compressed archive. Unpack it, and hand in the notebook itself",
            "Es wurde kein Notebook abgegeben, sondern b.zip; das ist ein komprimiertes Archiv. Entpack es und gib das Notebook selbst ab.",
        ),
        ("this notebook was moved to ada", "Dieses Notebook wurde zu ada verschoben."),
    ],
)
def test_a_reason_is_told_with_its_values(reason, said, german, tmp_path):
    line = {"outcome": "not gradable", "reason": reason, "results": {}, "student": "ada", "notebook": "p1"}
    write_page(tmp_path / "a.html", line | {"when": "2026-11-23T10:00:00+0000"}, None, None)
    assert f"<li>{said}</li>" in (tmp_path / "a.html").read_text(encoding="utf-8")
