"""Slides: one file that needs no network, with the speaker notes and without the answers."""

import base64
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from coursekit.author import recordings
from coursekit.author.build import solved_notebook
from coursekit.author.slide_prose import parts, task
from coursekit.author.slides import as_html, deck
from coursekit.basics.errors import CommandError
from coursekit.room.run_sheet import Row, lines, own_sheet
from tests.browser import chromium
from tests.chapters import CHAPTERS

ROOT = Path(__file__).parents[1]
CHAPTER = "ch00_start"


@pytest.fixture(scope="module")
def page() -> str:
    notebook = deck(CHAPTER)
    math = nbformat.v4.new_markdown_cell(r"Inline $\gamma^t$, and displayed: $$\sum_{t=0}^{T} \gamma^t r_t$$")
    notes = nbformat.v4.new_markdown_cell(r"Say $\gamma$.", metadata={"slideshow": {"slide_type": "notes"}})
    notebook.cells += [math, notes]
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


def shown(name: str) -> list[NotebookNode]:
    return [cell for cell in deck(name).cells if "notes" not in cell.metadata.get("tags", [])]


def test_cells_show_what_was_recorded_and_a_changed_cell_says_that_nothing_was(monkeypatch):
    *_, first, last = recordings.demonstrations(solved_notebook(ROOT / f"chapters/{CHAPTER}.py"))
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "", "text/plain": "recorded"}}
    printed = {"output_type": "stream", "name": "stdout", "text": "printed below it"}
    monkeypatch.setattr(recordings, "load", lambda *_: {"outputs": {first.id: [picture, printed]}})
    outputs = [output for cell in shown(CHAPTER) for output in cell.get("outputs", [])]
    assert sum(output.get("data") == picture["data"] for output in outputs) == 1
    assert outputs.count(printed) == 1
    changed = next(cell for cell in shown(CHAPTER) if cell.id == last.id)
    assert changed.outputs[0].text.startswith("No output: this cell has changed since the chapter was recorded.")
    assert "make record name=ch00_start" in changed.outputs[0].text


def test_the_speaker_has_the_answers_the_minutes_and_the_plan():
    plan = [("0:35 · launch", ("Launch first, gather later",), "Ask."), ("1:40 · batches", ("batched",), "")]
    cells = deck("ch01_tasks", plan=plan).cells
    notes = [cell.source for cell in cells if "notes" in cell.metadata.get("tags", [])]
    assert any("10 minutes for `parallel_map`" in note and "return ray.get(refs)" in note for note in notes)
    assert any("the answer is b" in note and "**c**" in note for note in notes)
    plans = [note for note in notes if note.startswith("**The plan**")]
    assert "**The plan**\n\n- **0:35 · launch** Ask.\n- 1:40 · batches" in plans  # in the section of that name
    assert "- 0:35 · launch\n- **1:40 · batches**" in plans[-1]


def test_german_slides_are_those_of_the_english_with_german_text_notes_and_pictures():
    plan = [("0:35 · launch", ("Launch first, gather later",), "Ask."), ("1:40 · batches", ("batched",), "")]
    english, german = (deck("ch01_tasks", plan=plan, language=language) for language in ("en", "de"))
    kinds = [[(cell.cell_type, cell.metadata.get("slideshow")) for cell in each.cells] for each in (english, german)]
    assert kinds[0] == kinds[1]
    notes = [cell.source for cell in german.cells if "notes" in cell.metadata.get("tags", [])]
    assert any("10 Minuten für `parallel_map`" in note and "return ray.get(refs)" in note for note in notes)
    assert any("die Antwort ist b" in note and "**c** " in note for note in notes)
    assert "**Der Plan**\n\n- **0:35 · launch** Ask.\n- 1:40 · batches" in notes  # in the section of that name
    assert "EN</sup>" not in "".join(cell.source for cell in german.cells)
    page = as_html(german, "ch01_tasks", ROOT)
    assert '<html lang="de">' in page
    assert "totalTime: 6000," in page
    drawn = [
        base64.b64decode(found).decode() for found in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)
    ]
    assert any(">Runde 1</text>" in svg for svg in drawn)


def test_chinese_slides_are_those_of_the_english_too():
    english, chinese = (deck("ch01_tasks", language=language) for language in ("en", "zh"))
    kinds = [[(cell.cell_type, cell.metadata.get("slideshow")) for cell in each.cells] for each in (english, chinese)]
    assert kinds[0] == kinds[1]
    page = as_html(chinese, "ch01_tasks", ROOT)
    assert '<html lang="zh">' in page
    assert "totalTime: 6000," in page


def test_a_chapter_that_nobody_has_translated_has_english_slides():
    english, german = ([cell.source for cell in deck("ch04_scheduling", language=each).cells] for each in ("en", "de"))
    assert english == german


def test_an_output_is_shown_with_one_sentence_and_the_notes_have_all_of_the_text():
    cells = deck("ch01_tasks").cells
    place = next(number for number, cell in enumerate(cells) if cell.source.startswith("In the upper plot"))
    assert (
        cells[place].source
        == "In the upper plot, each task starts only after the program has fetched the previous result."
    )
    assert any("In the lower plot, the program launches" in cell.source for cell in cells[place + 1 : place + 3])


def test_a_text_becomes_a_claim_a_picture_a_table_and_a_question():
    text = "## The claim\n\nFirst. More.\n\n![A plot](x.svg)\n\nTwo ways.\nThey are:\n\n| a | b |\n|---|---|\n\nFour run.\n\n**Predict:** how long?"
    assert [part.shown for part in parts(text)] == [
        ["## The claim", "![A plot](x.svg)"],
        ["They are:", "| a | b |\n|---|---|"],
        ["Four run.", "**Predict:** how long?"],
    ]
    assert parts("## The claim\n\nFirst.\nSecond.")[0].shown == ["## The claim", "First."]
    closing = parts("## What you can do now\n\n- Launch.\n  More.\n- Wait.\n\n## Traps\n\n- One.")
    assert [part.shown for part in closing] == [
        ["## What you can do now", "- Launch.\n- Wait."],
        ["## Traps", "- One."],
    ]


def test_a_chinese_text_becomes_a_table_and_a_question_too():
    text = "## 标题\n\n有两种写法。\n如下：\n\n| a | b |\n|---|---|\n\n四个在运行。\n\n**预测**：要多久？"
    assert [part.shown for part in parts(text)] == [
        ["## 标题", "如下：", "| a | b |\n|---|---|"],
        ["四个在运行。", "**预测**：要多久？"],
    ]


def test_a_task_says_what_to_write():
    assert task("`f` is fast.\nWrite `f`, which waits.\nThe check waits, too.", "f") == "Write `f`, which waits."
    assert task("`f` 很快。\n编写 `f`，它会等待。\n检查也会等待。", "f") == "编写 `f`，它会等待。"


def test_the_plan_is_the_chapters_own_run_sheet_or_the_one_that_was_chosen(monkeypatch):
    half = [Row(0, 10, "Welcome", ()), Row(10, 60, "Tasks", ("as_task", "gang")), Row(60, 75, "Break", ())]
    own = [Row(0, 30, "Tasks", ("as_task",), "Ask."), Row(30, 45, "Break", ())]
    monkeypatch.setattr("coursekit.room.run_sheet.sheets", lambda: {"Half a day": half, "Chapter 1 · Tasks": own})
    minutes = {"as_task": 5, "batched": 15}
    assert lines(minutes, "Half") == [("0:10 · 50 min · Tasks (`as_task` 5 min)", ("as_task", "gang", "Tasks"), "")]
    assert lines(minutes, "Chapter 1 ·") == [
        ("0:00 · 30 min · Tasks (`as_task` 5 min)", ("as_task", "Tasks"), "Ask."),
        ("0:30 · 15 min · Break", ("Break",), ""),
    ]
    with pytest.raises(CommandError, match="No run sheet"):
        lines(minutes, "A week")
    assert lines({"in_no_sheet": 1}) == [("`in_no_sheet`: 1 minute", ("in_no_sheet",), "")]
    assert own_sheet("ch01_tasks").startswith("Chapter 1 · Tasks")
    assert own_sheet("ch99_new") == ""


# What a slide may not be, measured in the browser with all slides laid out at once: taller or wider than the page, with letters
# smaller than 18 px of 720, without heading or notes.
FAULTS = """() => {
  for (const section of document.querySelectorAll(".slides section")) {
    section.style.display = "block"
    section.removeAttribute("hidden")
  }
  const scale = Reveal.getScale()
  const size = element => {
    let pixels = parseFloat(getComputedStyle(element).fontSize)
    for (; element; element = element.parentElement) pixels *= element.style.zoom || 1
    return pixels
  }
  return Reveal.getSlides().flatMap(slide => {
    const { h, v } = Reveal.getIndices(slide)
    const page = slide.getBoundingClientRect(), found = []
    const seen = [...slide.querySelectorAll("h1, h2, h3, p, li, .line, img, table, .katex-html")].filter(each => !each.closest("aside"))
    const boxes = seen.map(each => each.getBoundingClientRect())
    if (boxes.some(box => (box.bottom - page.top) / scale > 721)) found.push("too tall")
    if (boxes.some(box => (box.right - page.left) / scale > 1281)) found.push("too wide")
    if (!slide.querySelector("h1, h2")) found.push("no heading")
    if (!slide.querySelector("aside.notes")) found.push("no notes")
    if (!seen.some(each => !each.matches(".again"))) found.push("empty")
    const letters = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT)
    for (let text; text = letters.nextNode(); ) {
      const element = text.parentElement
      if (!/[\\p{L}\\p{N}]/u.test(text.data) || element.closest("aside, .katex-mathml, style")) continue
      if (size(element) < 17.9) found.push(`too small to read: ${text.data.trim()}`)
    }
    for (const img of slide.querySelectorAll("img[src^='data:image/svg']")) {
      const svg = new DOMParser().parseFromString(atob(img.src.split(",")[1]), "image/svg+xml").documentElement
      const [, , width, height] = svg.getAttribute("viewBox").split(" "), box = img.getBoundingClientRect()
      const shown = Math.min(box.width / width, box.height / height) / scale
      for (const text of svg.querySelectorAll("text")) {
        const pixels = shown * parseFloat(text.closest("[font-size]").getAttribute("font-size"))
        if (pixels < 17.9) found.push(`${pixels.toFixed(1)} px in a picture: ${text.textContent}`)
      }
    }
    return found.map(fault => `${h + 1}.${v + 1}: ${fault}`)
  })
}"""


@pytest.mark.slow
def test_on_every_slide_of_every_chapter_all_fits_and_is_large_enough_and_each_has_its_heading_and_notes(tmp_path):
    faults, counts = {}, {}
    decks = {name: deck(name) for name in CHAPTERS} | {"german": deck("ch01_tasks", language="de")}
    for name, slides in decks.items():
        (tmp_path / f"{name}.html").write_text(as_html(slides, name, ROOT), encoding="utf-8")
    with chromium() as browser:
        for name in decks:
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
        assert tab.locator("aside.notes math").count() >= 1  # and nothing that needs KaTeX's style sheet there
        assert tab.locator("aside.notes .katex-html").count() == 0
        with context.expect_page() as opened:
            tab.keyboard.press("s")
        note = tab.locator("aside.notes p").first.text_content()
        tab.evaluate(
            "Reveal.slide(...Object.values(Reveal.getIndices(document.querySelector('aside.notes').closest('section'))))"
        )
        opened.value.get_by_text(note).wait_for(timeout=10_000)
    assert errors == []
