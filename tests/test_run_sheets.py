"""Each chapter has a run sheet that can be kept to: its minutes add up, and it names what the chapter has."""

import re
from functools import cache

import pytest

from coursekit.basics.paths import ROOT
from coursekit.judging.exercise import load
from coursekit.room.run_sheet import Plan, Row, read, sheets
from tests.chapters import CHAPTERS

VOTE = 5  # minutes: a vote, talk, a second vote, and why
HALF_DAY = "Half a day (3 h 30)"
BESIDE = {"Start", "Break"}  # lines of a sheet that are no section
AFTERWARDS = "What you can do now"


def title(chapter: str) -> str:
    found = re.search(r"^# (Chapter .+)", source(chapter), re.MULTILINE)
    assert found
    return found[1]


@cache
def source(chapter: str) -> str:
    return (ROOT / f"chapters/{chapter}.py").read_text(encoding="utf-8")


@cache
def page(chapter: str) -> str:
    return (ROOT / f"docs/run_sheets/{chapter}.md").read_text(encoding="utf-8")


def heading_and_rows(chapter: str) -> tuple[str, list[Row]]:
    ((heading, rows),) = read(page(chapter)).items()
    return heading, rows


@cache
def sections(chapter: str) -> dict[str, list[str]]:
    """Return the sections of a chapter, as the board shows them, each with what is checked in it."""
    found: dict[str, list[str]] = {}
    for line in source(chapter).splitlines():
        if line.startswith("## "):
            found[line[3:].replace("`", "")] = []
        elif match := re.match(r'(?:check|quiz)\("(\w+)"', line):
            found[list(found)[-1]].append(match[1])
    return dict(list(found.items())[: list(found).index(AFTERWARDS)])


def sections_of(row: Row) -> list[str]:
    return [] if row.what in BESIDE else row.what.split(" · ")


def votes(chapter: str) -> list[str]:
    """Return the quizzes of which the lines of a page say that they are opened as a vote."""
    table = "\n".join(line for line in page(chapter).splitlines() if line.startswith("|"))
    return re.findall(r"\*\*[Vv]ote\*\* `(\w+)`", table)


def minutes(title: str) -> int:
    """Return the minutes that a title promises: "(1 h 50)", "(30 min)"."""
    match = re.search(r"\((?:(\d+) h)? ?(?:(\d+)(?: min)?)?\)$", title)
    assert match
    return 60 * int(match[1] or 0) + int(match[2] or 0)


def test_every_chapter_has_a_run_sheet_and_the_workshops_page_leads_to_it():
    pages = sorted(path.stem for path in (ROOT / "docs/run_sheets").glob("ch*.md"))
    assert pages == CHAPTERS
    text = (ROOT / "docs/workshop.md").read_text(encoding="utf-8")
    assert [name for name in pages if f"(run_sheets/{name}.md)" not in text] == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_without_its_break_a_sheet_takes_the_chapters_minutes(chapter):
    heading, rows = heading_and_rows(chapter)
    stated = re.search(r"\*About (\d+) minutes", source(chapter))
    assert stated
    assert heading.startswith(f"{title(chapter)} (")
    assert sum(row.end - row.start for row in rows if row.what != "Break") == int(stated[1])


@pytest.mark.parametrize("name", sheets())
def test_a_sheets_title_says_how_long_it_takes(name):
    assert sheets()[name][-1].end == minutes(name)


def test_half_a_day_gives_sections_their_minutes_begins_with_twenty_of_rl_and_has_a_quarter_of_slack():
    minutes: dict[str, list[int]] = {}
    for row in sheets()[HALF_DAY]:
        topic, _, what = row.what.partition(": ")
        minutes.setdefault(topic, []).append(row.end - row.start)
        if match := re.fullmatch(r"Chapter (\d+)", topic):
            chapter = CHAPTERS[int(match[1])]
            (own,) = (each for each in heading_and_rows(chapter)[1] if each.what == what)
            left_out = sum(load(chapter)[name].minutes for name in {*own.exercises} - {*row.exercises})
            assert row.end - row.start == own.end - own.start - left_out, row.what
    assert [*minutes][1] == "Chapter 7"
    assert sum(minutes["Chapter 7"]) == 20
    assert sum(minutes["Slack"]) >= sum(map(sum, minutes.values())) / 4


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_sheet_names_every_section_and_exercise_of_its_chapter_in_the_room_or_at_home(chapter):
    _, rows = heading_and_rows(chapter)
    here = [section for row in rows for section in sections_of(row)]
    order = list(sections(chapter))
    assert [section for section in here if section not in order] == []
    assert here == sorted(here, key=order.index)
    home = page(chapter).partition("## Homework")[2].partition("\n## ")[0]
    at_home = home.replace("`", "")
    assert [name for name in order if name not in here and f"*{name}*" not in at_home] == []
    exercises = [name for name, item in load(chapter).items() if item.kind == "exercise"]
    in_the_room = [name for row in rows for name in row.exercises]
    assert [name for name in exercises if name not in in_the_room and f"`{name}`" not in home] == []
    for row in rows:
        assert set(row.exercises) <= {name for section in sections_of(row) for name in sections(chapter)[section]}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_sheets_votes_are_quizzes_of_its_chapter_and_each_is_opened_once(chapter):
    quizzes = {name for name, item in load(chapter).items() if item.kind == "quiz"}
    opened = votes(chapter)
    assert opened
    assert len(set(opened)) == len(opened)
    assert set(opened) <= quizzes


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_exercises_and_quizzes_get_their_minutes_in_the_room(chapter):
    items, voted = load(chapter), votes(chapter)
    for row in heading_and_rows(chapter)[1]:
        alone = {name for section in sections_of(row) for name in sections(chapter)[section]} - {*voted}
        quizzes = sum(items[name].minutes for name in alone if items[name].kind == "quiz")
        opened = VOTE * sum(f"ote {name}" in row.say for name in voted)
        needed = sum(items[name].minutes for name in row.exercises) + quizzes + opened
        assert row.end - row.start >= needed, f"{row.what!r} needs {needed} minutes"


def test_the_exercises_of_a_days_sheet_get_their_minutes():
    for name, rows in read((ROOT / "docs/workshop.md").read_text(encoding="utf-8")).items():
        chapter = ""
        for row in rows:
            named = [
                each
                for number in re.findall(r"Chapter (\d+)", row.what)
                for each in CHAPTERS
                if each.startswith(f"ch{int(number):02}_")
            ]
            chapter = named[0] if named else chapter
            known = load(chapter) if row.exercises else {}
            assert set(row.exercises) <= set(known), f"{name}: {row.what!r} says in which chapter they are"
            needed = sum(known[exercise].minutes for exercise in row.exercises)
            assert row.end - row.start >= needed, f"{name}: {row.what!r} needs {needed} minutes"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_board_follows_every_chapters_sheet(chapter):
    heading, rows = heading_and_rows(chapter)
    assert rows == sheets()[heading]
    plan = Plan()
    plan.begin(heading, at=0.0)
    for row in rows:
        assert not re.search(r"[*`]", row.what + row.say), "the board shows words, not marks"
        for name in row.exercises:
            view = plan.view(name, now=60 * row.start)
            assert view
            assert view["late"] == 0
            assert [each["what"] for each in view["rows"] if each["room"] and each["now"]] == [row.what]
