"""In a real browser: the instructor asks the room from the board, and what learners write stays text."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import coursekit
from coursekit.author.slides import as_html, deck
from coursekit.basics.paths import ROOT
from coursekit.learner import checks
from coursekit.learner.workshop import attendance
from coursekit.room import server
from coursekit.room.run_sheet import sheets
from coursekit.room.votes import all_quizzes
from tests.browser import chromium
from tests.rooms import Opened, a_room, ask

__all__ = ["a_room"]
pytestmark = pytest.mark.slow


@pytest.fixture
def board(room: Opened) -> Iterator[Page]:
    """Yield the instructor's page; a script that a learner got into it would end the test."""
    coursekit.begin("ch01_tasks")
    all_quizzes()  # loads every chapter, before the page asks for them
    expect.set_options(timeout=30_000)
    with chromium() as browser:
        page = browser.new_context().new_page()
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        page.goto(f"http://127.0.0.1:{room.board}/?key={room.room.secret}")
        yield page


def test_vote_talk_vote_again_from_the_board(room, board):
    attendance.join(room.words, "Ada")
    projector = board.context.new_page()
    projector.goto(f"http://127.0.0.1:{room.board}/projector")
    board.select_option("#quiz", "ch01_tasks order_of_get")
    board.click("text=Open the vote")
    expect(projector.get_by_text("order_of_get: first vote")).to_be_visible()
    checks.quiz("order_of_get", "a")
    expect(board.get_by_label("first vote: 1 of 1")).to_be_visible()
    expect(projector.get_by_text("first (grey) vote: 1 in")).to_be_visible()
    expect(projector.get_by_label("first vote: 1 of 1")).to_have_count(0)
    board.click("text=End the vote")
    board.click("text=Vote again")
    expect(projector.get_by_text("order_of_get: second vote")).to_be_visible()
    checks.quiz("order_of_get", "b")
    expect(board.get_by_label("second vote: 1 of 1")).to_be_visible()
    board.click("text=Close, and show")
    expect(projector.get_by_label("second vote: 1 of 1")).to_be_visible()
    expect(projector.locator(".right")).to_contain_text("a, b, c: the order of the list")
    expect(board.get_by_text("Open the vote")).to_be_visible()


def test_a_script_in_a_nickname_or_a_line_is_text(room, board):
    attendance.join(room.words, "<img src=x onerror=alert(1)>")
    attendance.stuck("<script>alert(2)</script>")
    expect(board.get_by_role("rowheader", name="<img src=x onerror=alert(1)>")).to_be_visible()
    expect(board.locator("#stuck").get_by_text("hand: <script>alert(2)</script>")).to_be_visible()
    assert board.locator("img, tbody script").count() == 0


def test_the_board_says_what_to_do_in_the_line_that_is_due(board):
    title = next(each for each in sheets() if each.startswith("Chapter 1 ·"))
    board.select_option("#sheet", title)
    board.click("text=Start now")
    due = board.locator("#plan .now")
    expect(due).to_contain_text("A task is a function call that runs in another process: as_task")
    expect(due.locator("p")).to_have_text(sheets()[title][0].say)
    expect(board.locator("#plan p")).to_have_count(1)


def test_slides_that_the_room_serves_show_its_votes_and_none_once_the_question_is_hidden(
    room, board, tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "SLIDES", tmp_path)
    (tmp_path / "ch01_tasks.slides.html").write_text(as_html(deck("ch01_tasks"), "ch01_tasks", ROOT), encoding="utf-8")
    attendance.join(room.words, "Ada")
    slides, errors = board.context.new_page(), []
    slides.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    slides.goto(f"http://127.0.0.1:{room.board}/slides/ch01_tasks")
    slides.wait_for_function("window.Reveal && Reveal.isReady()")
    quiz = slides.locator("[data-quiz='ch01_tasks order_of_get']")
    place = "document.querySelector('[data-quiz$=order_of_get]').closest('section')"
    slides.evaluate(f"Reveal.slide(...Object.values(Reveal.getIndices({place})))")
    assert quiz.text_content() == ""
    ask(room, "open")
    checks.quiz("order_of_get", "b")
    expect(quiz).to_have_text("first (grey) vote: 1 in")
    option = quiz.locator("xpath=..").locator("[data-option=b]")
    assert not option.get_attribute("data-votes")
    ask(room, "close")
    expect(option).to_have_attribute("data-votes", "1")
    expect(option).to_have_class("right")
    ask(room, "hide")
    expect(quiz).to_have_text("")
    assert errors == []
