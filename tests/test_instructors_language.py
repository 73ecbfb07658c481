"""The room and the run sheets are in the instructor's language; what the room tells learners is not."""

import re
import uuid
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from coursekit.author import slides
from coursekit.basics import readers_language
from coursekit.basics.html_page import SAID, WORDS
from coursekit.basics.paths import ROOT
from coursekit.basics.readers_language import speaking, spoken
from coursekit.basics.translations import BOARD, INTERFACE, languages, translated
from coursekit.cli import app
from coursekit.judging.exercise import load
from coursekit.machine import learners_folder
from coursekit.room import room_command, server
from coursekit.room.before_and_after import BeforeAndAfter
from coursekit.room.incoming import Event
from coursekit.room.live_board import Board, Person, minutes_of
from coursekit.room.mistake_words import words
from coursekit.room.run_sheet import all_sheets, lines, own_sheet, sheets
from coursekit.room.sections import Closed
from tests.chapters import CHAPTERS

CHAPTER, PLAN = "ch01_tasks", "Chapter 1 · Tasks (1 h 50)"


@pytest.fixture(params=languages())
def language(request) -> Iterator[str]:
    with speaking(request.param):
        yield request.param


@pytest.fixture
def german() -> Iterator[None]:
    with speaking("de"):
        yield


def event(kind: str, exercise: str = "", **more: object) -> Event:
    return Event(uuid.uuid4().hex, kind, CHAPTER, exercise, **more)


@pytest.fixture
def board() -> Board:
    """Return a room in which Ada has got the same message three times, and Grace another; the room votes."""
    found = Board()
    for name in ("ada", "grace"):
        found.people[name] = Person(name)
    found.take("ada", event("check", "as_task", outcome="passed", attempts=1), 0)
    for attempt in (1, 2, 3):
        wrong = event("check", "parallel_map", outcome="wrong", attempts=attempt, message_id="hsad44")
        found.take("ada", wrong, 0)
    found.take("grace", event("check", "as_task", outcome="crashed", attempts=1, message_id="crashed-KeyError"), 0)
    found.do("plan", "", PLAN, 0)
    found.do("open", CHAPTER, "order_of_get", 0)
    return found


def test_the_board_has_all_its_words_in_each_language(language):
    page = server.PAGE.read_text(encoding="utf-8")
    html, _, script = page.partition("<script>")
    shown = server._page(language)
    assert f'<html lang="{language}">' in shown
    known = translated(INTERFACE, language).of_context(BOARD)
    asked = {text.strip() for text in WORDS.findall(html) if re.search("[A-Za-z]{2}", text)} | set(SAID.findall(script))
    assert asked == set(known)
    left = [text for text in WORDS.findall(shown.partition("<script>")[0].partition("<header>")[2]) if text in known]
    assert [text for text in left if known[text] != text] == []


def test_stuck_and_troubles_and_the_question_are_told(board, german):
    view = board.view()
    ada = next(person for person in view["people"] if person["nickname"] == "ada")
    assert ada["stuck"] == "parallel_map: 3-mal dieselbe Meldung"
    said = {each["exercise"]: each["message"] for each in view["troubles"]}
    assert said["parallel_map"].startswith("Der letzte Aufruf hatte noch nicht begonnen")
    assert said["as_task"] == "der Code hat eine Exception ausgelöst: KeyError"
    question = view["question"]
    assert question["text"].startswith("Du rufst `ray.get([a, b, c])` auf")
    assert (
        question["options"][0]["text"]
        == translated(CHAPTER, "de")("quiz order_of_get a", load(CHAPTER)["order_of_get"].options["a"][0]).text
    )


def test_learners_hear_of_a_vote_and_of_a_refusal_without_the_rooms_language(board, german):
    assert board.questions.told() == {"chapter": CHAPTER, "name": "order_of_get", "poll": 1}
    with pytest.raises(Closed, match="your instructor has opened no section of this chapter yet"):
        board.sections.answers(CHAPTER, "")


def test_values_of_a_message_are_dots_in_each_language_and_a_message_without_translation_is_english(language):
    said = words(CHAPTER, "as_task", "unbjyp")
    assert "…" in said
    assert "The task" not in said
    assert words("ch04_scheduling", "fits", "jhgmof") == "also the dead"


def test_the_plan_is_told_and_keeps_its_english_name(board, german):
    plan = board.view()["plan"]
    assert (plan["title"], plan["shown"]) == (PLAN, PLAN)  # begun before the room spoke German
    board.do("plan", "", PLAN, 0)
    plan = board.view()["plan"]
    assert (plan["title"], plan["shown"]) == (PLAN, "Kapitel 1 · Tasks (1 h 50)")
    assert plan["rows"][1]["what"] == "Erst starten, dann einsammeln"
    assert plan["rows"][1]["say"].startswith("Vorhersagen lassen mit predict(")


def test_the_instructor_chooses_among_translated_titles(language):
    listed = server._choices(language)
    quizzes = {each["name"]: each["text"] for each in listed["quizzes"]}
    assert quizzes["order_of_get"] != load(CHAPTER)["order_of_get"].question
    section = next(each for each in listed["sections"] if each["chapter"] == CHAPTER)
    assert section["titles"][1] == "Launch first, gather later"
    assert section["shown"][1] == translated(CHAPTER, language)("heading", section["titles"][1]).text
    shown = {each["title"]: each["shown"] for each in listed["sheets"]}
    assert shown["A day (6 h 30)"] != "A day (6 h 30)"
    assert shown[PLAN] == translated(CHAPTER, language)("heading", PLAN).text != PLAN


def test_the_ten_questions_are_told(german):
    page = BeforeAndAfter()
    assert "<h1>Zehn Fragen, vorher</h1><p>vorher 0 Antworten, nachher 0</p>" in page.page()
    page.do("results", 1)
    shown = page.page()
    assert '<html lang="de">' in shown
    assert "Ich weiß es nicht." in shown
    assert "Warum misst du die beiden Algorithmen abwechselnd" in shown


@pytest.mark.parametrize(
    ("chosen", "given", "spoken_there"), [("de", [], "de"), ("de", ["--in", "en"], "en"), ("en", ["--in", "zh"], "zh")]
)
def test_a_room_speaks_the_language_that_is_given_or_that_of_the_notebooks(
    chosen, given, spoken_there, tmp_path, monkeypatch
):
    (tmp_path / "work/.course").mkdir(parents=True)
    (tmp_path / "locale").symlink_to(ROOT / "locale")
    readers_language.choose(tmp_path, chosen)
    monkeypatch.setattr(learners_folder, "learners_folder", lambda: tmp_path)
    opened = []
    monkeypatch.setattr(room_command, "open_room", lambda *options: opened.append(spoken()))
    assert CliRunner().invoke(app, ["room", *given]).exit_code == 0
    assert (opened, spoken()) == ([spoken_there], "en")
    assert "There is no translation into 'fr'" in CliRunner().invoke(app, ["room", "--in", "fr"]).output


def test_a_run_sheet_is_told_row_by_row_and_keeps_the_english_names_of_its_sections(language):
    for chapter in (name for name in CHAPTERS if translated(name, language).of_context("run sheet")):
        with speaking("en"):
            english = lines(minutes_of(chapter), own_sheet(chapter))
        told = lines(minutes_of(chapter), own_sheet(chapter))
        assert [line.names for line in told] == [line.names for line in english]
        assert [line.words for line, old in zip(told, english, strict=True) if line.words == old.words] == []
        assert [line.say for line, old in zip(told, english, strict=True) if line.say == old.say and line.say] == []


def test_a_run_sheet_without_a_translation_stays_english(german):
    title = own_sheet("ch04_scheduling")
    told = sheets()[title]
    shown = next(sheet["shown"] for sheet in all_sheets() if sheet["title"] == title)
    with speaking("en"):
        assert (shown, [row.say for row in told]) == (title, [row.say for row in sheets()[title]])


def test_slides_have_the_run_sheet_and_the_votes_in_their_language(monkeypatch):
    made = []
    monkeypatch.setattr(slides, "write_slides", lambda name, **options: made.append(options) or ROOT / name)
    assert CliRunner().invoke(app, ["slides", CHAPTER, "--in", "de"]).exit_code == 0
    [options] = made
    notebook = slides.deck(CHAPTER, plan=options["plan"], language=options["language"])
    [plan] = [
        cell.source for cell in notebook.cells if "- **0:15 · 24 min · Erst starten, dann einsammeln (" in cell.source
    ][:1]
    assert plan.startswith("**Der Plan**")
    assert "Vorhersagen lassen mit predict(" in plan
    assert any(
        'data-first="Stimmen in der ersten Abstimmung (grau): {count}"' in cell.source for cell in notebook.cells
    )
