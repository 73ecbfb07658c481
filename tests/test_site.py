"""The web site: chapters as pages, with what their demonstrations showed; it answers quizzes and finds exercises without a server."""

import base64
import io
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import nbformat
import pytest
from nbformat.v4 import new_output
from packaging.requirements import Requirement
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect

from coursekit.author import record, site
from coursekit.exercise import Quiz, load
from coursekit.paths import ROOT
from tests.browser import chromium
from tests.chapters import CHAPTERS
from tests.test_browser import QUIET_CHROMIUM

CHAPTER = "ch01_tasks"
RECORDED = sorted((ROOT / "site/recorded").glob("*.json"))
TEXTS = tomllib.loads((ROOT / "site/en/texts.toml").read_text(encoding="utf-8"))
PAGE_MB, RECORDED_MB = 1.5, 8.0  # the most that a page's HTML and pictures weigh, and all recordings together


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Return a folder with one chapter, whose recording is real."""
    for name in ("solutions", "notebooks", "chapters", "coursekit/exercises", "site/recorded"):
        (tmp_path / name).mkdir(parents=True)
        (path,) = (ROOT / name).glob(f"{CHAPTER}.*")
        (tmp_path / name / path.name).write_bytes(path.read_bytes())
    return tmp_path


def text_of(cells: list) -> str:
    return "\n".join(cell.source for cell in cells)


def test_a_cell_that_has_changed_shows_no_old_output_and_is_listed(course):
    assert record.not_run_again(course) == ""
    for folder in ("solutions", "notebooks"):
        path = course / folder / f"{CHAPTER}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        cell = next(cell for cell in notebook.cells if "for x in range(8):" in cell.source)
        cell.source, cell.id = cell.source.replace("range(8)", "range(9)"), "changed-0"
        nbformat.write(notebook, path)
    assert record.not_run_again(course) == "ch01_tasks (1 cell)"
    cells = site.page(CHAPTER, TEXTS, root=course).cells
    place = next(place for place, cell in enumerate(cells) if cell.id == "changed-0")
    assert cells[place].outputs == []
    assert TEXTS["not_run_again"] in cells[place + 1].source
    assert text_of(cells).count(TEXTS["not_run_again"]) == 1


def test_a_page_says_where_and_when_it_was_recorded_or_that_it_was_not(course):
    found = record.load(CHAPTER, course)
    assert (
        f"{found['date']}, on this machine: {found['machine']}"
        in site.page(CHAPTER, TEXTS, root=course).cells[1].source
    )
    record.recording(CHAPTER, course).unlink()
    page = site.page(CHAPTER, TEXTS, root=course)
    assert TEXTS["not_yet_run"] in page.cells[1].source
    assert TEXTS["not_run_again"] not in text_of(page.cells)


def test_a_solution_unfolds_below_its_check_or_is_left_out():
    with_them, without = (site.page(CHAPTER, TEXTS, solutions).cells for solutions in (True, False))
    place = next(place for place, cell in enumerate(with_them) if cell.source == 'check("parallel_map", parallel_map)')
    folded = with_them[place + 1].source
    assert folded.startswith(f"<details><summary>{TEXTS['after_you_tried']}</summary>")
    assert "return ray.get(refs)" in folded
    assert "in the same breath" in folded
    assert [cell.source for cell in with_them if "<details>" not in cell.source] == [cell.source for cell in without]
    assert "return ray.get(refs)" not in text_of(without)


def test_speaker_notes_and_marks_are_on_no_page():
    text = text_of(site.page(CHAPTER, TEXTS).cells)
    assert "Have the room run" not in text
    assert "SOLUTION" not in text


def test_the_questions_that_are_read_are_those_that_are_asked():
    asked = {name: item for name, item in load(CHAPTER).items() if isinstance(item, Quiz)}
    assert site.quizzes(CHAPTER) == {name: (item.question, item.options, item.key) for name, item in asked.items()}
    assert all(
        f'<form class="quiz" data-key="{item.key}">' in text_of(site.page(CHAPTER, TEXTS).cells)
        for item in asked.values()
    )


def test_an_animation_is_kept_as_it_ended_and_a_bar_that_has_ended_not_at_all():
    with io.BytesIO() as file:
        Image.new("RGB", (4, 4), "red").save(
            file, "GIF", save_all=True, append_images=[Image.new("RGB", (4, 4), "blue")]
        )
        gif = base64.b64encode(file.getvalue()).decode()
    film = {"text/html": f"<img src='data:image/gif;base64,{gif}' alt='film'/>", "text/plain": "film"}
    kept = record._kept(new_output("display_data", film))
    with Image.open(io.BytesIO(base64.b64decode(kept["data"]["image/png"]))) as picture:
        assert picture.getpixel((0, 0)) == (0, 0, 255)
    assert record._kept(new_output("display_data", {"text/html": "", "text/plain": ""})) == {}


def test_recordings_are_of_chapters_and_weigh_what_is_allowed():
    assert [path.stem for path in RECORDED if path.stem not in CHAPTERS] == []
    assert sum(path.stat().st_size for path in RECORDED) < RECORDED_MB * 2**20


def test_the_sites_exact_versions_are_those_that_are_asked_for():
    exact = [Requirement(line) for line in (ROOT / "site/requirements.txt").read_text().splitlines() if line[0] != "#"]
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    for wanted in map(Requirement, groups["site"]):
        found = [str(one.specifier).removeprefix("==") for one in exact if one.name == wanted.name]
        assert found
        assert all(version in wanted.specifier for version in found)


@pytest.fixture(scope="module")
def built() -> Path:
    """Return the folder of the site, built as `make site` builds it."""
    subprocess.run(["make", "site"], cwd=ROOT, check=True, env=os.environ | {"SOLUTIONS": "1", "REPOSITORY": ""})
    return site.BUILT


@pytest.fixture(scope="module")
def pages(built: Path) -> list[Path]:
    return sorted(path for path in built.rglob("*.html") if "_static" not in path.parts)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(QUIET_CHROMIUM) as found:
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context()
    yield found
    found.close()


@pytest.fixture
def tab(context: BrowserContext) -> Page:
    return context.new_page()


class Links(HTMLParser):
    """What a page leads to and loads, its pictures, and the places in it that a link can name."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.pictures, self.ids = list[str](), list[str](), set[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                if tag == "img":
                    self.pictures.append(value)


@pytest.mark.full
def test_every_link_inside_the_site_leads_somewhere(pages):
    read = {path.resolve(): Links(path) for path in pages}
    lost = []
    for path, found in read.items():
        for link in found.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, place = urldefrag(link)
            target = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            if not target.exists() or (place and target in read and unquote(place) not in read[target].ids):
                lost.append(f"{path.name}: {link}")
    assert lost == []


@pytest.mark.full
def test_a_page_with_its_pictures_is_light(pages, built, capsys):
    weights = {}
    for path in pages:
        pictures = {(path.parent / unquote(link)).resolve() for link in Links(path).pictures if ":" not in link}
        weights[path.stem] = (path.stat().st_size + sum(picture.stat().st_size for picture in pictures)) / 2**20
    shared = sum(path.stat().st_size for path in (built / "_static").rglob("*") if path.is_file()) / 2**20
    with capsys.disabled():
        print(f"\nthe heaviest page: {max(weights.values()):.2f} MB; files that all pages share: {shared:.1f} MB")
    assert {name: weight for name, weight in weights.items() if weight > PAGE_MB} == {}


@pytest.mark.full
def test_no_page_asks_for_anything_outside_its_folder(pages, context, tab):
    asked, errors = set[str](), list[str]()
    context.on("request", lambda request: asked.add(request.url))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    for path in pages:
        tab.goto(path.as_uri())
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert errors == []


@pytest.mark.full
def test_a_quiz_answers_to_the_mouse_and_to_the_keyboard(built, tab):
    tab.goto((built / f"notebooks/{CHAPTER}.html").as_uri())
    quiz = tab.locator("form.quiz", has_text="order_of_get")
    quiz.get_by_text("c, a, b: as they ended.").click()
    quiz.get_by_role("button").click()
    expect(quiz.get_by_role("status")).to_have_text("✘ That is what a quick loop around ray.wait gives you.")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("ArrowDown")
    expect(quiz.get_by_role("status")).to_be_empty()
    tab.keyboard.press("Enter")
    expect(quiz.get_by_role("status")).to_contain_text("✔ Right: ray.get waits for all of them")


@pytest.mark.full
def test_formulas_are_drawn_with_the_courses_own_fonts(built, tab):
    tab.goto((built / f"notebooks/{CHAPTER}.html").as_uri())
    expect(tab.locator(".math .katex").first).to_be_visible()
    assert tab.evaluate("document.fonts.ready.then(() => document.fonts.check('16px KaTeX_Math'))")
    assert tab.locator(".katex-error").count() == 0


@pytest.mark.full
def test_every_exercise_is_found_by_the_search(built, tab):
    tab.goto((built / "search.html").as_uri())
    tab.wait_for_function("Search.hasIndex()")
    names = {(name, item) for name in CHAPTERS for item, _, _ in site.exercises(site.page(name, TEXTS))}
    search = "name => Search._performSearch(...Search._parseQuery(name)).map(found => found[0])"
    lost = [item for chapter, item in names if f"notebooks/{chapter}" not in tab.evaluate(search, item)]
    assert len(names) > 80
    assert lost == []
