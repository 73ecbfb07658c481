"""A page is one file: nothing beside it is loaded, and what a person typed stays text."""

import re

import pytest

from coursekit.basics.html_page import html_page
from coursekit.basics.paths import STATIC
from coursekit.capstone.lead_chart import SHOWN

STYLES = sorted(path.stem for path in (STATIC / "pages").glob("*.css"))


@pytest.mark.parametrize("style", STYLES)
def test_a_page_loads_nothing_and_has_a_dark_look(style):
    text = html_page("The class", "<p>{all} of it</p>", style)
    assert not re.search(r"https?:|<script|<link|src=|@import|url\(", text)
    assert "color-scheme: light dark" in text
    assert text.endswith("<p>{all} of it</p>\n")


def test_a_title_is_text():
    assert "<title>&lt;/title&gt;&lt;b&gt;</title>" in html_page("</title><b>", "", "class")


def test_each_curve_of_the_leaderboard_has_a_colour_in_light_and_in_dark():
    css = (STATIC / "pages/leaderboard.css").read_text(encoding="utf-8")
    colours = re.findall(r"\.c(\d) \{ --own: (#\w{6}) \}", css)
    assert [int(place) for place, _ in colours] == [*range(1, SHOWN + 1)] * 2
    assert len({colour for _, colour in colours}) == 2 * SHOWN
