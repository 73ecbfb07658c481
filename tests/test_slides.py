"""Slides: one file that needs no network, with the speaker notes and without the answers."""

import re
from pathlib import Path

import nbformat
import pytest

from coursekit.author.slides import _height, as_html, deck
from tests.browser import chromium

ROOT = Path(__file__).parents[1]
CHAPTER = "ch00_start"


@pytest.fixture(scope="module")
def page() -> str:
    notebook = deck(CHAPTER)
    math = nbformat.v4.new_markdown_cell(r"Inline $\gamma^t$, and displayed: $$\sum_{t=0}^{T} \gamma^t r_t$$")
    notebook.cells.append(math)
    return as_html(notebook, CHAPTER, ROOT)


def test_the_page_loads_nothing_from_elsewhere(page):
    markup = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"([^\"]*)", markup)
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    loaded += re.findall(r"@import[^;]*|url\([\"']?([^)\"']+)", styles)
    assert [address[:80] for address in loaded if not address.startswith("data:")] == []


def test_answers_stay_hidden_and_notes_go_to_the_speaker(page):
    assert "BEGIN SOLUTION" not in page
    assert '<aside class="notes">' in page


def test_every_picture_is_inside(page):
    pictures = len(
        re.findall(
            r"!\[[^]]*\]\(",
            "".join(cell.source for cell in deck(CHAPTER).cells if cell.cell_type == "markdown"),
        )
    )
    assert page.count('src="data:image/svg+xml;base64,') == pictures > 0


@pytest.mark.parametrize(
    ("one_line", "wrapped"),
    [
        ("One. Two.", "One.\nTwo."),
        ("- One. Two.\n- Three.", "- One.\n  Two.\n- Three."),
        ("> One. Two.", "> One.\n> Two."),
    ],
)
def test_a_page_is_as_full_however_its_text_is_wrapped(one_line, wrapped):
    assert _height(nbformat.v4.new_markdown_cell(one_line)) == _height(nbformat.v4.new_markdown_cell(wrapped))


@pytest.mark.slow
def test_a_browser_without_a_network_shows_slides_math_and_notes(page, tmp_path):
    path = tmp_path / "slides.html"
    path.write_text(page, encoding="utf-8")
    with chromium(["--no-sandbox", "--disable-gpu"]) as browser:
        context = browser.new_context(offline=True)
        tab, errors = context.new_page(), []
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(path.as_uri())
        tab.wait_for_function("window.Reveal && Reveal.isReady()")
        assert tab.evaluate("Reveal.getTotalSlides()") >= 3
        assert tab.locator(".katex-display").count() >= 1
        with context.expect_page() as opened:
            tab.keyboard.press("s")
        note = tab.locator("aside.notes p").first.text_content()
        tab.evaluate(
            "Reveal.slide(...Object.values(Reveal.getIndices(document.querySelector('aside.notes').closest('section'))))"
        )
        opened.value.get_by_text(note).wait_for(timeout=10_000)
    assert errors == []
