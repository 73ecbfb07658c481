"""The ten questions, before and after: a learner answers all in a line, and the instructor's page shows both rounds."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import coursekit
from coursekit.learner.workshop import attendance
from coursekit.learner.workshop.ten_questions import QUESTIONS, all_ten, ten_questions
from coursekit.room.before_and_after import BeforeAndAfter
from coursekit.room.incoming import Event
from coursekit.room.server import COOKIE
from tests.browser import chromium
from tests.rooms import Opened, a_room, instructor, new_home

__all__ = ["a_room"]
KEYS = "".join(key for *_, key in all_ten())


def ten(letters: str, seconds: float = 0.0) -> Event:
    return Event("0" * 32, "ten", "ch01_tasks", line=letters, seconds=seconds)


def test_the_ten_are_quizzes_of_the_course_with_their_texts_and_options():
    assert len(QUESTIONS) == len({*QUESTIONS}) == 10
    shown = str(ten_questions())
    assert "4. A loop of 10,000 additions takes 0.5 ms." in shown
    assert "   c) Thousands of times as long." in shown


@pytest.mark.parametrize(
    ("letters", "says"),
    [
        (
            "abc",
            "You wrote 'abc'. Write ten letters, one for each question, or a dash where you don't know. These are 3.",
        ),
        ("abba-d----", "Question 6 has the options a, b, c, and 'd' is none of them."),
    ],
)
def test_what_is_no_answer_to_ten_questions_is_not_sent_and_the_reason_is_said(letters, says):
    assert says in str(ten_questions(letters))


def test_outside_a_room_nothing_is_sent(tmp_path, monkeypatch):
    new_home(tmp_path, monkeypatch)
    assert "You are not in a room" in str(ten_questions("-" * 10))


def test_an_answer_counts_for_the_round_in_which_it_was_sent_and_the_last_line_counts():
    both = BeforeAndAfter()
    both.take("ada", ten("a" * 10), at=1)
    both.take("ada", ten("b" * 10), at=2)
    both.do("after", at=10)
    both.take("grace", ten("c" * 10, seconds=5), at=12)
    both.take("ada", ten(KEYS), at=13)
    assert both.rounds() == (["b" * 10, "c" * 10], [KEYS])
    both.do("before", at=14)  # the button was pressed too soon
    assert both.rounds() == ([KEYS, "c" * 10], [])


def test_no_answer_is_on_the_page_before_the_results():
    both = BeforeAndAfter()
    both.take("ada", ten("-" * 10), at=1)
    both.do("after", at=2)
    both.take("ada", ten(KEYS), at=3)
    assert "1 answer before, 1 after" in both.page()
    assert "Right answers" not in both.page()
    assert "class=right" not in both.page()
    both.do("results", at=4)
    assert "Right answers: 0.0 of 10 before, 10.0 after (means)." in both.page()
    with pytest.raises(ValueError, match="no such step"):
        both.do("hide", at=5)


@pytest.fixture
def page(room: Opened) -> Iterator[Page]:
    expect.set_options(timeout=30_000)
    with chromium() as browser:
        context = browser.new_context()
        address = f"http://127.0.0.1:{room.board}/ten_questions"
        context.add_cookies([{"name": COOKIE, "value": room.room.secret, "url": address}])
        found = context.new_page()
        found.goto(address)
        yield found


@pytest.mark.slow
def test_the_room_is_asked_twice_and_sees_both_rounds_side_by_side(room, page):
    coursekit.begin("ch01_tasks")
    attendance.join(room.words, "Ada")
    assert "Your answers are in the room" in str(ten_questions("-" * 10))
    expect(page.get_by_text("1 answer before, 0 after")).to_be_visible()
    page.get_by_role("button", name="Count answers as after").click()
    expect(page.get_by_role("heading", name="Ten questions, after")).to_be_visible()
    ten_questions(KEYS)
    page.get_by_role("button", name="Show the results").click()
    right = page.locator("li").first.locator("tr.right td.bar")
    expect(right).to_have_text(["0", "1"])
    expect(page.get_by_text("Ada")).to_have_count(0)
    assert instructor(room, doing="ten", name="hide") == 409
