"""What README and docs promise is there: files, commands, chapters, minutes."""

import re

import pytest

from coursekit.paths import NOTEBOOKS, ROOT
from tests.chapters import CHAPTERS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_command_exists(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= set(targets)


def test_readme_lists_every_chapter_with_the_minutes_it_states():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\(notebooks/(\w+)\.ipynb\) \|.*\| (\d+) \|", readme)
    assert listed == [(chapter, minutes_of(chapter)) for chapter in CHAPTERS]


def test_readme_map_and_chapters_agree_on_what_builds_on_what():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\(notebooks/(ch\d\d)\w+\.ipynb\) \|.*\| ([\d, –]+) \| \d+ \|", readme)
    arrows = re.findall(r'id="(ch\d\d)-(ch\d\d)"', (ROOT / "img/learners_map.svg").read_text(encoding="utf-8"))
    said = {name[:4]: set(re.findall(r"\((ch\d\d)_", needs_of(name))) for name in CHAPTERS}
    table = {name: {f"ch{int(number):02}" for number in re.findall(r"\d+", numbers)} for name, numbers in listed}
    drawn = {name: {start for start, end in arrows if end == name} for name in said}
    assert all_before(table) == all_before(said)
    assert all_before(drawn) == all_before(said)


def all_before(needs: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the chapters that come before each, those before them included; chapters are in order."""
    found: dict[str, set[str]] = {}
    for name, direct in sorted(needs.items()):
        found[name] = direct.union(*(found[other] for other in direct))
    return found


def needs_of(chapter: str) -> str:
    """Return what a chapter says that it builds on, without what merely helps."""
    text = (NOTEBOOKS / f"{chapter}.ipynb").read_text(encoding="utf-8")
    return re.search(r"builds on (.*?)[;*]", text)[1]


def minutes_of(chapter: str) -> str:
    return re.search(r"About (\d+) minutes", (NOTEBOOKS / f"{chapter}.ipynb").read_text(encoding="utf-8"))[1]


def test_workshop_names_only_exercises_that_exist():
    from coursekit.exercise import load

    known = {name for chapter in CHAPTERS for name in load(chapter)}
    rows = [line.split("|")[4] for line in (ROOT / "docs/workshop.md").read_text().splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named
    assert named <= known
