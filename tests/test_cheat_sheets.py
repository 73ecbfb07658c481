"""The cheat sheets: each chapter is on the page of its part, and each page, printed, is one page."""

import re

import pytest

from coursekit.author.cheat_sheets import PARTS, cheat_sheets
from coursekit.author.listings import openings
from coursekit.basics.paths import ROOT
from coursekit.judging.exercise import AuthorError
from tests.browser import chromium

PAGES = cheat_sheets()


def test_every_chapter_is_on_one_page_with_what_one_can_do_and_its_traps():
    assert list(PAGES) == [f"part_{letter.lower()}.html" for letter, *_ in PARTS]
    headings = [heading for page in PAGES.values() for heading in re.findall("<h2>(.*?)</h2>", page)]
    assert headings == [f"{each.number} · {each.title}" for each in openings()]
    lines = re.findall(r"^- You ", "\n".join(path.read_text() for path in ROOT.glob("chapters/ch*.py")), re.MULTILINE)
    assert sum(page.count("<li>You ") for page in PAGES.values()) == len(lines)
    assert "<strong>A sleep isn't work.</strong> With" in PAGES["part_a.html"]


def test_on_paper_there_are_no_links_and_formulas_are_text():
    text = "".join(PAGES.values())
    assert "href" not in text
    assert "include γV." in text
    assert "far beyond −1 and 1" in text
    assert not re.search(r"[$\\^]|</?sup", text.replace("color-mix", ""))


def test_a_chapter_without_these_sections_is_named(tmp_path):
    (tmp_path / "chapters").mkdir()
    for path in ROOT.glob("chapters/ch*.py"):
        (tmp_path / "chapters" / path.name).write_text(path.read_text().replace("## Traps", "## Caveats"))
    with pytest.raises(AuthorError, match="chapters/ch00_start.py: its last sections aren't"):
        cheat_sheets(tmp_path)


@pytest.mark.slow
def test_each_page_is_printed_on_one():
    with chromium() as browser:
        tab = browser.new_page()
        for name, page in PAGES.items():
            tab.set_content(page)
            assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True))) == 1, name
