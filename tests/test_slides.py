"""Slides: one file that needs no network, with the speaker notes and without the answers."""

import re
from pathlib import Path

import nbformat
import pytest

from coursekit.author.slides import as_html, deck
from coursekit.basics.errors import CommandError
from coursekit.room.run_sheet import Row, lines
from tests.browser import chromium
from tests.chapters import CHAPTERS

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


def test_the_speaker_has_the_answers_the_minutes_and_the_plan():
    cells = deck(
        "ch01_tasks", plan=[("0:35 · launch", ("as_task", "parallel_map")), ("1:40 · batches", ("batched",))]
    ).cells
    notes = [cell.source for cell in cells if "notes" in cell.metadata.get("tags", [])]
    assert any("10 minutes for `parallel_map`" in note and "return ray.get(refs)" in note for note in notes)
    assert any("the answer is b" in note and "**c**" in note for note in notes)
    plans = [note for note in notes if note.startswith("**The plan**")]
    assert "- **0:35 · launch**\n- 1:40 · batches" in plans[0]
    assert "- 0:35 · launch\n- **1:40 · batches**" in plans[-1]


def test_a_paragraph_shows_how_it_begins_and_the_notes_have_all_of_it():
    cells = deck("ch01_tasks").cells
    place = next(number for number, cell in enumerate(cells) if "On an idle machine, the launch takes" in cell.source)
    assert "In between" not in cells[place].source
    assert "In between, your program is free to launch more tasks." in cells[place + 1].source


def test_the_plan_is_the_run_sheet_with_most_of_the_chapter_or_the_one_that_was_chosen(monkeypatch):
    half = [Row(0, 10, "Welcome", ()), Row(10, 60, "Tasks", ("as_task",)), Row(60, 75, "Break", ())]
    day = [Row(90, 120, "Tasks", ("as_task",)), Row(120, 135, "Break", ()), Row(135, 150, "Batches", ("batched",))]
    monkeypatch.setattr("coursekit.room.run_sheet.sheets", lambda: {"Half a day": half, "A day": day})
    minutes = {"as_task": 5, "batched": 15}
    assert lines(minutes, "Half") == [("0:10 · 50 min · Tasks (`as_task` 5 min)", ("as_task",))]
    assert [line for line, _ in lines(minutes)] == [
        "1:30 · 30 min · Tasks (`as_task` 5 min)",
        "2:00 · 15 min · Break",
        "2:15 · 15 min · Batches (`batched` 15 min)",
    ]
    with pytest.raises(CommandError, match="No run sheet"):
        lines(minutes, "A week")
    assert lines({"in_no_sheet": 1}) == [("`in_no_sheet`: 1 minute", ("in_no_sheet",))]


# What a slide may not be, measured in the browser: taller or wider than the page, without heading or notes.
FAULTS = """() => Reveal.getSlides().flatMap(slide => {
  const { h, v } = Reveal.getIndices(slide)
  Reveal.slide(h, v)
  const page = slide.getBoundingClientRect(), scale = Reveal.getScale(), found = []
  const seen = [...slide.querySelectorAll("h1, h2, h3, p, li, .line, img, table, .katex-html")]
    .filter(each => !each.closest("aside")).map(each => each.getBoundingClientRect())
  if (seen.some(box => (box.bottom - page.top) / scale > 721)) found.push("too tall")
  if (seen.some(box => (box.right - page.left) / scale > 1281)) found.push("too wide")
  if (!slide.querySelector("h1, h2")) found.push("no heading")
  if (!slide.querySelector("aside.notes")) found.push("no notes")
  if ([...slide.querySelectorAll("[style*=zoom]")].some(each => each.style.zoom < 0.5)) found.push("too small to read")
  return found.map(fault => `${h + 1}.${v + 1}: ${fault}`)
})"""


@pytest.mark.slow
def test_on_every_slide_of_every_chapter_nothing_is_cut_and_each_has_its_heading_and_notes(tmp_path):
    faults, counts = {}, {}
    for name in CHAPTERS:
        (tmp_path / f"{name}.html").write_text(as_html(deck(name), name, ROOT), encoding="utf-8")
    with chromium() as browser:
        for name in CHAPTERS:
            tab = browser.new_page(viewport={"width": 1280, "height": 720})
            tab.goto((tmp_path / f"{name}.html").as_uri())
            tab.wait_for_function("window.Reveal && Reveal.isReady()")
            counts[name] = tab.evaluate("Reveal.getTotalSlides()")
            faults[name] = tab.evaluate(FAULTS)
            tab.close()
    assert {name: found for name, found in faults.items() if found} == {}
    assert min(counts.values()) > 10


@pytest.mark.slow
def test_a_browser_without_a_network_shows_slides_math_and_notes(page, tmp_path):
    path = tmp_path / "slides.html"
    path.write_text(page, encoding="utf-8")
    with chromium() as browser:
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
