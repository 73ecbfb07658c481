"""What people look at, in a real browser: the board on a laptop's screen, tabs by keyboard, contrast, and what a printer gets."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbconvert.filters import markdown2html
from playwright.sync_api import Browser, Page, expect

from coursekit.basics.html_page import html_page
from coursekit.basics.paths import ROOT, STATIC
from coursekit.basics.readers_language import speaking
from coursekit.basics.translations import BOARD, INTERFACE, languages, translated
from coursekit.grading.class_settings import Settings
from coursekit.grading.desk.class_page import page_of_class, parts_of
from coursekit.judging.result import COLOURS
from coursekit.room.run_sheet import sheets
from coursekit.room.votes import all_quizzes
from tests.browser import chromium
from tests.contrast import too_faint
from tests.crowds import fill, history, names
from tests.rooms import Opened, ask, instructor, new_home, opened

LAPTOP = {"width": 1366, "height": 768}
SIZES = [3, 30, 36, 300]
PLAN = max((title for title in sheets() if title.startswith("Chapter ")), key=lambda title: len(sheets()[title]))
LONGEST = max(all_quizzes(), key=lambda quiz: len(quiz["text"]))
PARTS = {
    "#question-part": "order_of_get",
    "#stuck-part": "hand",
    "#troubles-part": "first_k",
    "#grid-part": "as_task",
}


def test_the_stylesheet_has_the_colors_of_the_cards():
    look = (STATIC / "look.css").read_text(encoding="utf-8")
    assert dict(re.findall(r"--(\w+): (#\w{6});", look)).items() >= COLOURS.items()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=60_000)
    with chromium() as found:
        yield found


@contextmanager
def board_of(number: int, browser: Browser, folder: Path) -> Iterator[tuple[Opened, Page]]:
    """Yield a room of this many people, and the instructor's page."""
    fill(folder / "room.db", number)
    with opened(folder / "room.db") as room:
        page = browser.new_context(viewport=LAPTOP).new_page()
        page.goto(f"http://127.0.0.1:{room.board}/?key={room.room.secret}")
        expect(page.locator("#state")).to_contain_text(f"{number} ")
        yield room, page
        page.context.close()


@pytest.fixture
def board(request, browser, tmp_path, monkeypatch) -> Iterator[tuple[Opened, Page]]:
    new_home(tmp_path, monkeypatch)
    with board_of(getattr(request, "param", 30), browser, tmp_path) as found:
        yield found


def lowest(page: Page) -> float:
    """Return where the last part of what the instructor looks at ends, in pixels."""
    return page.evaluate(
        "Math.max(...[...document.querySelectorAll('#now section')].map(each => each.getBoundingClientRect().bottom))"
    )


@pytest.mark.slow
@pytest.mark.parametrize("board", SIZES, indirect=True)
def test_on_a_laptop_question_stuck_troubles_and_the_room_need_no_scrolling(board):
    room, page = board
    instructor(room, doing="plan", name=PLAN)
    expect(page.locator("#plan .now")).to_be_visible()
    assert lowest(page) <= LAPTOP["height"]
    ask(room, "open")
    for part, words in PARTS.items():
        expect(page.locator(part)).to_contain_text(words)
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    ask(room, "close")
    ask(room, "hide")
    ask(room, "open", LONGEST["name"], LONGEST["chapter"])
    expect(page.locator("#question-title")).to_contain_text(LONGEST["name"])
    assert lowest(page) <= LAPTOP["height"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("language", languages())
def test_in_another_language_the_board_fits_the_screen_and_no_words_of_it_are_english(
    language, browser, tmp_path, monkeypatch
):
    new_home(tmp_path, monkeypatch)
    english = [text for text in translated(INTERFACE, language).of_context(BOARD) if " " in text and "{" not in text]
    with speaking(language), board_of(30, browser, tmp_path) as (room, page):
        instructor(room, doing="plan", name=PLAN)
        expect(page.locator("#plan .now")).to_be_visible()
        assert lowest(page) <= LAPTOP["height"]
        for tab in page.get_by_role("tab").all():
            tab.click()
            shown = page.inner_text("body")
            assert [text for text in english if text in shown] == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("board", [30], indirect=True)
def test_thirty_people_are_a_grid_with_raised_hands_first_and_full_names(board):
    _, page = board
    shown = page.locator("#grid tbody th").all_inner_texts()
    assert sorted(shown) == sorted(names(30))
    hands = [row.split()[0] for row in page.locator("#stuck .hand").all_inner_texts()]
    assert len(hands) == 3
    assert shown[:3] == hands
    assert (
        page.evaluate(
            "[...document.querySelectorAll('#grid tbody th')].filter(each => each.scrollWidth > each.clientWidth).length"
        )
        == 0
    )
    cell = page.get_by_label("first_k: wrong, attempts 3, hints 1").first
    expect(cell).to_have_text("✘")


@pytest.mark.slow
@pytest.mark.parametrize("board", [300], indirect=True)
def test_three_hundred_people_are_counts_and_what_is_left_out_is_counted_too(board):
    room, page = board
    people = room.watch()["people"]
    passed = sum(person["cells"].get("as_task", {}).get("outcome") == "passed" for person in people)
    expect(page.locator("#grid tr").first).to_contain_text(f"{passed} passed")
    listed, stuck = (
        page.locator("#stuck li").count(),
        [each for each in people if each["hand"] is not None or each["stuck"]],
    )
    expect(page.locator("#more")).to_have_text(f"and {len(stuck) - listed} more, under People")
    page.click("#people-tab")
    assert page.locator("#people tbody tr").count() == 300
    page.click("#now-tab")
    assert page.locator("#stuck li").count() == listed


@pytest.mark.slow
def test_the_tabs_follow_the_keyboard_and_say_which_one_is_chosen(board):
    _, page = board
    page.focus("#now-tab")
    for key, tab, panel in [
        ("ArrowRight", "Plan", "#whole-plan"),
        ("ArrowRight", "People", "#everybody"),
        ("End", "Save", "#save"),
        ("ArrowRight", "Now", "#now"),
        ("ArrowLeft", "Save", "#save"),
        ("Home", "Now", "#now"),
    ]:
        page.keyboard.press(key)
        expect(page.get_by_role("tab", name=tab, selected=True)).to_be_focused()
        expect(page.get_by_role("tabpanel")).to_have_count(1)
        expect(page.locator(panel)).to_be_visible()
    page.keyboard.press("Tab")  # past the other tabs, into the panel
    expect(page.locator("#quiz")).to_be_focused()


@pytest.mark.slow
def test_numbers_are_a_histogram_with_labeled_axes(board):
    room, page = board
    page.click("#numbers-tab")
    plot = page.get_by_role("group", name="launch_first: how many predicted what")
    expect(plot.locator(".title")).to_have_text(["predicted: seconds", "people"])
    bars = next(each["bars"] for each in room.watch()["numbers"] if each["name"] == "launch_first")
    most = max(bar["count"] for bar in bars)
    expect(plot.locator("text:not(.title)")).to_have_text(["0.5", "1", "1.5", "0", f"{most}"])
    assert plot.get_by_role("img").count() == len(bars)
    expect(plot.get_by_label(re.compile(f"^0.4 to .*: {bars[0]['count']} predicted"))).to_have_count(1)


@pytest.mark.slow
@pytest.mark.parametrize("board", [30], indirect=True)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_text_of_the_board_reads_well_on_every_tab(board, theme):
    room, page = board
    page.emulate_media(color_scheme=theme)
    instructor(room, doing="plan", name=PLAN)
    expect(page.locator("#plan .now")).to_be_visible()
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert too_faint(page, "body") == []


@pytest.mark.slow
def test_a_printed_board_has_everything_whatever_tab_is_chosen(board):
    room, page = board
    instructor(room, doing="plan", name=PLAN)
    expect(page.locator("#plan .now")).to_be_visible()
    page.click("#numbers-tab")
    page.emulate_media(media="print", color_scheme="dark")
    for part in ("#stuck", "#troubles", "#grid", "#rows", "#people", "#numbers-list"):
        expect(page.locator(part)).to_be_visible()
    assert page.locator("#rows tr").count() == len(sheets()[PLAN])
    for part in ("[role=tablist]", "#open", "#section", "#save"):
        expect(page.locator(part)).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def of_class(number: int) -> str:
    students = {f"s{place + 1:03}": "" for place in range(number)}
    return page_of_class("course", parts_of(history(number), {}), students, {}, Settings(Path("class.toml")))


def test_the_classs_page_leads_with_what_to_act_on():
    shown = of_class(30)
    leads = [
        "Handed in nothing: ",
        "Not gradable: ",
        "Not judged: ",
        "The hardest exercises",
        "The most common messages",
        "mean points",
    ]
    places = [shown.index(each) for each in leads]
    assert places == sorted(places)
    lines = history(30)
    graded = {line["student"] for line in lines if line["assignment"] == "ch01_tasks"}
    [missing] = {f"s{place + 1:03}" for place in range(30)} - graded
    assert f"<dt><code>ch01_tasks</code></dt><dd>1: {missing}</dd>" in shown


def test_the_hardest_exercises_are_those_that_at_least_ten_have_handed_in():
    assert "The hardest exercises" not in of_class(9)
    assert "The hardest exercises" in of_class(30)


def test_each_message_has_a_card_with_its_count_in_the_color_of_its_outcome():
    results = [
        result for line in history(30) for result in line["results"].values() if result["message_id"] == "vmdoqd"
    ]
    card = next(each for each in of_class(30).split("<div style='border-left:4px solid ")[1:] if "vmdoqd" in each)
    assert card.startswith(COLOURS["wrong"])
    assert f"{len(results)} × tree_sum: wrong" in card


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_text_of_the_classs_page_reads_well(browser, theme):
    page = browser.new_page(color_scheme=theme)
    page.set_content(of_class(30))
    assert too_faint(page, "body") == []
    page.close()


@pytest.mark.slow
def test_a_printed_students_page_shows_every_answer_in_full(browser):
    page = browser.new_page()
    code = "<details><summary>Your answer</summary><pre class='code'><span>x = 1</span></pre></details>"
    page.set_content(html_page("Ada", code, "student"))
    expect(page.locator("pre")).to_be_hidden()
    page.emulate_media(media="print")
    expect(page.locator("pre")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('pre')).whiteSpace") == "pre-wrap"
    page.close()


@pytest.mark.slow
def test_the_handout_is_one_sheet_of_paper(browser):
    page = browser.new_page()
    text = (ROOT / "docs/handout.md").read_text(encoding="utf-8")
    page.set_content(html_page("How to take part", markdown2html(text), "handout"))
    assert len(re.findall(rb"/Type /Page\b", page.pdf(prefer_css_page_size=True))) == 1
    page.close()
