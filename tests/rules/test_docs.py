"""What README and docs promise is there: files, commands, exercises, and on the map what builds on what."""

import re

import pytest

from coursekit.author.listings import all_before, openings
from coursekit.basics.paths import ROOT
from coursekit.machine.copies import course_version
from tests.prose import files

PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *(path for path in files("docs", ".md") if path.name[0] != "_"),
]


def test_what_git_ignores_is_no_page(tmp_path):
    for name in ("docs/page.md", "docs/.ipynb_checkpoints/page-checkpoint.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files("docs", ".md", tmp_path) == [tmp_path / "docs/page.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_command_exists(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= set(targets)


def test_the_changelog_begins_with_the_courses_version_and_speaks_to_all_three():
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    assert newest.startswith(f"{course_version()}\n")
    assert re.findall(r"^### (.*)", newest, re.MULTILINE) == ["For learners", "For instructors", "For authors"]


def test_every_box_and_arrow_of_the_map_is_true():
    before = all_before(openings())
    boxes = {f"ch{number:02}" for number in before}
    arrows = {f"ch{need:02}-ch{number:02}" for number, needs in before.items() for need in needs}
    drawn = re.findall(r'id="(ch\d\d(?:-ch\d\d)?)"', (ROOT / "img/learners_map.svg").read_text(encoding="utf-8"))
    assert len(drawn) == len(set(drawn))
    assert sorted(set(drawn) - boxes - arrows) == [], (
        "Delete the elements with these ids from img/learners_map.svg, then run `make build`: it draws the arrows that are "
        "missing, straight and between its marks. To bend one, or to move a box, drag its line above them."
    )
