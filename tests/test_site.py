"""The web site: chapters as pages, with what their demonstrations showed; it answers quizzes and finds exercises without a server."""

import base64
import functools
import io
import json
import re
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag

import nbformat
import polib
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from packaging.requirements import Requirement
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect
from typer.testing import CliRunner

from coursekit.author import build, recordings, site, site_links, translation_files
from coursekit.author.listings import PATHS
from coursekit.basics.errors import CommandError
from coursekit.basics.paths import ROOT
from coursekit.basics.translated_cells import MARK
from coursekit.basics.translations import translated
from coursekit.cli import app
from coursekit.judging import quiz_text
from coursekit.judging.exercise import Quiz, load
from tests.chapters import CHAPTERS
from tests.web_site import a_browser, built_site, make_site

__all__ = ["a_browser", "built_site"]
CHAPTER = "ch01_tasks"
RECORDED = sorted((ROOT / "site/recorded").glob("*.json"))
TEXTS, GERMAN = site.texts_in("en"), site.texts_in("de")
PAGE_MB, RECORDED_MB = 1.5, 8.0  # the most that a page's HTML and pictures weigh, and all recordings together
BUILD_SECONDS, OPEN_SECONDS = 90, 1.0  # the most that a build takes, and a page on the loopback
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Return a folder with one chapter, whose recording is real."""
    for name in ("solutions", "notebooks", "chapters", "coursekit/exercises", "site/recorded"):
        (tmp_path / name).mkdir(parents=True)
        (path,) = (ROOT / name).glob(f"{CHAPTER}.*")
        (tmp_path / name / path.name).write_bytes(path.read_bytes())
    return tmp_path


def translate(course: Path, entries: dict[str, tuple[str, str]], language: str = "de") -> None:
    """Have a language, in which these texts of the chapter are translated."""
    file = polib.POFile()
    file.extend(polib.POEntry(msgctxt=where, msgid=text, msgstr=said) for where, (text, said) in entries.items())
    (course / f"locale/{language}").mkdir(parents=True, exist_ok=True)
    file.save(str(course / f"locale/{language}/{CHAPTER}.po"))
    translated.cache_clear()


def text_of(cells: list) -> str:
    return "\n".join(cell.source for cell in cells)


def changed_cells(course: Path) -> int:
    """Return how many cells of the chapter are listed as changed since it was recorded."""
    listed = re.search(rf"{CHAPTER} \((\d+) cell", recordings.not_run_again(course))
    return int(listed[1]) if listed else 0


def test_a_cell_that_has_changed_shows_no_old_output_and_is_listed(course):
    before = changed_cells(course)
    recorded = recordings.load(CHAPTER, course)["outputs"]
    for folder in ("solutions", "notebooks"):
        path = course / folder / f"{CHAPTER}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        cell = next(cell for cell in notebook.cells if recorded.get(cell.id))
        cell.source, cell.id = f"{cell.source}\n# changed", "changed-0"
        nbformat.write(notebook, path)
    assert changed_cells(course) == before + 1
    cells = site.page(CHAPTER, TEXTS, root=course).cells
    place = next(place for place, cell in enumerate(cells) if cell.id == "changed-0")
    assert cells[place].outputs == []
    assert TEXTS["not_run_again"] in cells[place + 1].source
    assert text_of(cells).count(TEXTS["not_run_again"]) == before + 1


def test_make_record_without_a_name_lists_what_has_not_been_run_again(monkeypatch):
    monkeypatch.setattr(recordings, "not_run_again", lambda: "ch01_tasks (1 cell)")
    said = CliRunner().invoke(app, ["record"])
    assert (said.exit_code, said.output) == (
        0,
        "Chapters that have changed since they were recorded: ch01_tasks (1 cell).\n",
    )


def test_several_chapters_are_recorded_in_turn_and_one_that_fails_stops_no_other(monkeypatch, capsys):
    def run(name: str, root: Path) -> Path:
        if name == "ch01_tasks":
            raise CommandError("Nothing was recorded: as_task did not pass.")
        return recordings.recording(name, root)

    monkeypatch.setattr(recordings, "record", run)
    assert recordings.record_all(["ch00_start", "ch01_tasks", "ch05_faults"]) == ["ch01_tasks"]
    told = [line.partition(" (")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == [
        "wrote site/recorded/ch00_start.json",
        "ch01_tasks: Nothing was recorded: as_task did not pass.",
        "wrote site/recorded/ch05_faults.json",
    ]
    with pytest.raises(CommandError, match="There is no chapter 'ch05'"):
        recordings.record_all(["ch00_start", "ch05"])


@pytest.mark.slow
def test_a_recording_names_no_folder_of_its_machine_and_a_cell_that_fails_leaves_the_old_one(course, capsys):
    def solution(source: str) -> None:
        cell = new_code_cell(source, id="cell-0")
        nbformat.write(new_notebook(cells=[cell], metadata=build.KERNEL), course / f"solutions/{CHAPTER}.ipynb")

    solution(
        "import os, sys; print(os.environ['COURSEKIT_HOME'], os.environ['RAY_TMPDIR'], os.getcwd(), sys.base_prefix)"
    )
    assert recordings.record_all([CHAPTER], course) == []
    kept = recordings.recording(CHAPTER, course).read_text(encoding="utf-8")
    assert json.loads(kept)["seconds"] == {}
    assert "~/.local/share/coursekit /tmp/ray ~/ray-rl-course/solutions /usr\\n" in kept
    solution("1 / 0")
    assert recordings.record_all([CHAPTER], course) == [CHAPTER]
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert recordings.recording(CHAPTER, course).read_text(encoding="utf-8") == kept


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_cell_that_takes_long_says_so_and_shows_a_bar(chapter):
    assert recordings.silent_waits(chapter) == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_cell_shows_what_a_call_of_matplotlib_returned(chapter):
    kept = [output for outputs in recordings.load(chapter).get("outputs", {}).values() for output in outputs]
    texts = [output["data"]["text/plain"] for output in kept if output["output_type"] == "display_data"]
    assert [text for text in texts if re.match(r"\[?(<matplotlib|Text\()", text)] == []


@pytest.mark.parametrize(
    ("text", "code", "missing"),
    [
        ("It trains twice, which takes about a minute.", "for _ in track(range(9), 'PPO'): train()", []),
        ("The check takes about 30 s.", 'check("train", train)', []),
        ("It trains twice.", "for _ in track(range(9), 'PPO'): train()", ["say in the text above how long it takes"]),
        ("It takes a minute.", "trains()", []),
        ("It takes a minute.", "train()", ["loop over `track("]),
        ("It trains.", "train()", ["say in the text above how long it takes", "loop over `track("]),
    ],
)
def test_what_a_long_cell_lacks_is_named(text, code, missing, course):
    bar = new_code_cell("def trains():\n    for _ in track(range(9), 'PPO'):\n        train()")
    cells = [bar, new_markdown_cell(text), new_code_cell(code, id="long"), new_code_cell("train()", id="short")]
    nbformat.write(new_notebook(cells=cells), course / f"solutions/{CHAPTER}.ipynb")
    recordings.recording(CHAPTER, course).write_text('{"seconds": {"long": 31}, "outputs": {}}')
    found = recordings.silent_waits(CHAPTER, course)
    assert [line.startswith(f"{CHAPTER}: `{code}` took 31 s: ") for line in found] == [True] * len(missing)
    assert all(words in line for words, line in zip(missing, found, strict=True))


def test_a_page_says_where_and_when_it_was_recorded_or_that_it_was_not(course):
    found = recordings.load(CHAPTER, course)
    assert (
        f"{found['date']}, on this machine: {found['machine']}"
        in site.page(CHAPTER, TEXTS, root=course).cells[1].source
    )
    recordings.recording(CHAPTER, course).unlink()
    page = site.page(CHAPTER, TEXTS, root=course)
    assert TEXTS["not_yet_run"] in page.cells[1].source
    assert TEXTS["not_run_again"] not in text_of(page.cells)


def test_a_solution_unfolds_below_its_check_or_is_left_out():
    with_them, without = (site.page(CHAPTER, TEXTS, solutions).cells for solutions in (True, False))
    place = next(place for place, cell in enumerate(with_them) if cell.source == 'check("parallel_map", parallel_map)')
    folded = with_them[place + 1].source
    assert folded.startswith(f"<details><summary>{TEXTS['after_you_tried']}</summary>")
    assert "return ray.get(refs)" in folded
    assert "in the same iteration of the loop" in folded
    assert [cell.source for cell in with_them if "<details>" not in cell.source] == [cell.source for cell in without]
    assert "return ray.get(refs)" not in text_of(without)


@pytest.mark.parametrize("name", CHAPTERS)
def test_without_solutions_a_page_has_no_line_that_a_learner_would_have_to_write(name):
    solved = nbformat.read(ROOT / f"solutions/{name}.ipynb", as_version=4)
    unsolved = text_of(nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4).cells)
    answers = [cell.source for cell in solved.cells if "### BEGIN SOLUTION" in cell.source]
    lines = {line for answer in answers for line in answer.splitlines() if len(line) > 15 and line not in unsolved}
    shown = text_of(site.page(name, TEXTS, solutions=False).cells)
    assert lines or not answers
    assert [line for line in lines if line in shown] == []


def test_another_language_needs_translations_and_nothing_else(course):
    for language in ("de", "zh"):
        translate(course, {}, language)
    assert list(site.places(course).values()) == [site.BUILT, site.BUILT / "de", site.BUILT / "zh"]
    words = {key: f"[{key}]" for key in TEXTS} | {"language": "en"}
    shown = text_of(site.page(CHAPTER, words, root=course).cells)
    assert all(words[key] in shown for key in ("recorded", "quiz", "answer", "after_you_tried"))
    assert not any(TEXTS[key] in shown for key in ("after_you_tried", "picture", "not_run_again"))
    assert f">{TEXTS['answer']}<" not in shown


def test_a_german_page_has_german_text_and_the_same_code_outputs_and_keys():
    english, german = (site.page(CHAPTER, texts) for texts in (TEXTS, GERMAN))
    code = [
        [(cell.id, cell.source, cell.outputs) for cell in page.cells if "outputs" in cell] for page in (english, german)
    ]
    assert code[0] == code[1] != []
    said, keys = text_of(german.cells), re.compile(r'data-key="(\w)"')
    assert keys.findall(said) == keys.findall(text_of(english.cells)) != []
    assert said.startswith("# Kapitel 1 · Tasks")
    assert f"({CHAPTER}-as_task)=\n**Aufgabe `as_task`** · 1 Punkt" in said
    assert GERMAN["after_you_tried"] in said
    assert "im selben Schleifendurchlauf" in said  # from a solution
    assert MARK not in said
    exercises = [("as_task", "1 Punkt", "5 Minuten"), ("parallel_map", "2 Punkte", "10 Minuten")]
    assert site.exercises(german)[:2] == exercises


def test_what_nobody_has_translated_yet_is_english_with_its_mark_and_a_chapter_without_translations_has_none(course):
    translate(course, {"heading": ("Launch first, gather later", "Erst starten")})
    page = site.page(CHAPTER, GERMAN, root=course)
    assert page.metadata.text_language == "de"
    said = text_of(page.cells)
    assert "\n## Erst starten\n" in f"\n{said}"
    assert f"c, a, b: the order in which the tasks end.{MARK}</label>" in said
    translate(course, {})
    page = site.page(CHAPTER, GERMAN, root=course)
    assert page.metadata.text_language == "en"
    assert MARK not in text_of(page.cells)


def test_links_lead_to_translated_headings_and_to_the_english_where_there_is_no_translation(tmp_path):
    pages = {
        "index.md": "# Home\n\n```{toctree}\n:caption: Chapters\n\ndocs/*\n```\n",
        "docs/a.md": "# A\n\n## One way\n\n[here](#one-way), [there](b.md), [deep](b.md#the-_end), [out](https://x.y#z)\n",
        "docs/b.md": "# The `b`\n\n## The _end\n",
    }
    german = {
        name: pages[name].replace("One way", "Ein Weg").replace("Home", "Start") for name in pages if "b" not in name
    }
    for language, texts in (("en", pages), ("de", german)):
        for name, text in texts.items():
            (tmp_path / language / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / language / name).write_text(text)
    site_links.lead_on(tmp_path / "de", tmp_path / "en")
    assert "\n\ndocs/a\nThe b (EN) <en:///docs/b.html>\n```" in (tmp_path / "de/index.md").read_text()
    assert (tmp_path / "de/docs/a.md").read_text().splitlines()[-1] == (
        "[here](#ein-weg), [there](en:///docs/b.html), [deep](en:///docs/b.html#the-end), [out](https://x.y#z)"
    )
    (built := tmp_path / "de/docs/a.html").write_text('<a class="reference external" href="en:///docs/b.html#x">')
    site_links.lead_to_english(tmp_path / "de")
    assert built.read_text() == '<a class="reference internal" href="../../docs/b.html#x">'


def test_every_path_is_a_card_with_the_chapter_where_it_begins():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    cards = site._list_of_paths(readme, {"ch00_start": site.page("ch00_start", TEXTS)}, TEXTS)
    told = re.findall(
        r"^- \*\*(.+)\*\*\n  (.+)\n\n  Chapters (\d.*), about \d+ hours\n\n  Begin with (.+)$", cards, re.MULTILINE
    )
    begin = "[Chapter 0 · Getting started](notebooks/ch00_start.ipynb)"
    assert [(path, whom, first) for path, whom, _, first in told] == [
        (p, whom, begin) for p, (whom, _) in PATHS.items()
    ]
    assert re.fullmatch(r"All \d+ chapters take about \d+ hours, an hour or two each\.", cards.splitlines()[-2])


def test_a_path_that_nobody_has_translated_is_a_card_with_its_mark():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    marked = re.sub(r"^(\| \*\*.*)\|$", rf"\g<1>{MARK}|", readme, flags=re.MULTILINE)
    cards = site._list_of_paths(marked, {"ch00_start": site.page("ch00_start", GERMAN)}, GERMAN)
    assert cards.count(f"{MARK}\n\n  Kapitel ") == len(PATHS)


def test_speaker_notes_and_marks_are_on_no_page():
    text = text_of(site.page(CHAPTER, TEXTS).cells)
    assert "Have everyone run the two cells" not in text
    assert "SOLUTION" not in text


def test_the_questions_that_are_read_are_those_that_are_asked():
    asked = {name: item for name, item in load(CHAPTER).items() if isinstance(item, Quiz)}
    assert quiz_text.read(ROOT / f"coursekit/exercises/{CHAPTER}.py") == {
        name: (item.question, item.options, item.key) for name, item in asked.items()
    }
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
    kept = recordings._kept(new_output("display_data", film))
    with Image.open(io.BytesIO(base64.b64decode(kept["data"]["image/png"]))) as picture:
        assert picture.getpixel((0, 0)) == (0, 0, 255)
    assert recordings._kept(new_output("display_data", {"text/html": "", "text/plain": ""})) == {}


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


def test_the_workflow_publishes_what_make_site_builds():
    jobs = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8"))["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    folders = [step["with"]["path"] for step in jobs["build"]["steps"] if "path" in step.get("with", {})]
    assert [command.split()[:2] for command in commands] == [["make", "site"]]
    assert folders == [str(site.BUILT.relative_to(ROOT))]
    assert jobs["publish"]["permissions"] == {"pages": "write", "id-token": "write"}


@pytest.fixture(scope="module")
def pages(built: Path) -> list[Path]:
    return sorted(path for path in built.rglob("*.html") if "_static" not in path.parts)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context()
    yield found
    found.close()


@pytest.fixture
def tab(context: BrowserContext) -> Page:
    return context.new_page()


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of a folder and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A web server that does not mind a browser that leaves a page before it has all of it."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """Return where a plain web server has the site."""
    with Server(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@dataclass
class Visit:
    """What the browser saw on a walk through all pages, opened from their folder, on a phone."""

    asked: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    too_wide: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def visit(browser: Browser, pages: list[Path]) -> Iterator[Visit]:
    found, phone = Visit(), browser.new_context(viewport=PHONE)
    phone.on("request", lambda request: found.asked.add(request.url))
    tab = phone.new_page()
    tab.on("pageerror", lambda error: found.errors.append(str(error)))
    tab.on("console", lambda message: found.errors.append(message.text) if message.type == "error" else None)
    for path in pages:
        tab.goto(path.as_uri())
        if (width := tab.evaluate("document.documentElement.scrollWidth")) > PHONE["width"]:
            found.too_wide.append(f"{path.stem}: {width}")
    yield found
    phone.close()


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


@pytest.fixture(scope="module")
def read(pages: list[Path]) -> dict[Path, Links]:
    return {path.resolve(): Links(path) for path in pages}


def weights(read: dict[Path, Links]) -> dict[Path, float]:
    """Return for each page the MB of its HTML and its own pictures."""
    found = {}
    for path, page in read.items():
        pictures = {(path.parent / unquote(link)).resolve() for link in page.pictures if ":" not in link}
        found[path] = sum(file.stat().st_size for file in {path, *pictures}) / 2**20
    return found


@pytest.mark.nightly
def test_a_build_runs_nothing_and_is_soon_ready(built):
    """On a machine that does nothing else, the clock shows less than the CPU seconds do: Sphinx uses all cores."""
    assert 0 < make_site()[1] <= BUILD_SECONDS


@pytest.mark.nightly
def test_every_link_inside_the_site_leads_somewhere(read):
    lost = []
    for path, found in read.items():
        for link in found.links:
            if re.match(r"(?!en:)[a-z]+:", link):  # no page names the English ones as their source does
                continue
            target, place = urldefrag(link)
            target = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            if not target.exists() or (place and target in read and unquote(place) not in read[target].ids):
                lost.append(f"{path.name}: {link}")
    assert lost == []


@pytest.mark.nightly
def test_every_page_is_reached_from_the_way_in(read, built):
    reached, new = set[Path](), {(built / "index.html").resolve()}
    while new:
        reached |= new
        targets = {(path.parent / unquote(urldefrag(link)[0])).resolve() for path in new for link in read[path].links}
        new = targets & read.keys() - reached
    assert sorted(path.name for path in read.keys() - reached) == []


@pytest.mark.nightly
def test_a_page_with_its_pictures_is_light(read, built, capsys):
    found = weights(read)
    shared = sum(path.stat().st_size for path in (built / "_static").rglob("*") if path.is_file()) / 2**20
    with capsys.disabled():
        print(f"\nthe heaviest page: {max(found.values()):.2f} MB; files that all pages share: {shared:.1f} MB")
    assert {path.stem: weight for path, weight in found.items() if weight > PAGE_MB} == {}


@pytest.mark.nightly
def test_no_page_asks_for_anything_outside_its_folder(visit):
    assert [url for url in visit.asked if not url.startswith(("file:", "data:"))] == []
    assert visit.errors == []


@pytest.mark.nightly
def test_no_page_is_wider_than_a_phone(visit):
    assert visit.too_wide == []


@pytest.mark.nightly
def test_a_page_opens_in_a_second(read, built, address, tab, capsys):
    """The shortest of three loads counts: it is the one that the rest of the machine disturbed least."""
    heavy = sorted(weights(read).items(), key=lambda item: -item[1])[:3]
    seconds = {}
    for path in [built / "index.html", *(path for path, _ in heavy)]:
        loads = []
        for _ in range(3):
            tab.goto(f"{address}/{path.relative_to(built.resolve())}")
            loads.append(tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000)
        seconds[path.stem] = min(loads)
    with capsys.disabled():
        print(f"\nseconds until a page is loaded: {seconds}")
    assert {name: one for name, one in seconds.items() if not 0 < one < OPEN_SECONDS} == {}


@pytest.mark.nightly
def test_the_way_in_leads_over_the_map_to_a_chapter_and_its_notebook(address, tab):
    tab.goto(f"{address}/index.html")
    tab.locator(".learners-map a", has=tab.locator("#ch01")).click()
    tab.wait_for_url(f"{address}/notebooks/{CHAPTER}.html")
    tab.get_by_role("button", name="Download this page").click()
    with tab.expect_download() as waiting:
        tab.get_by_role("link", name=".ipynb").click()
    assert waiting.value.suggested_filename == f"{CHAPTER}.ipynb"
    assert waiting.value.path().read_bytes() == (ROOT / f"notebooks/{CHAPTER}.ipynb").read_bytes()


@pytest.mark.nightly
def test_the_home_has_entrances_for_learners_instructors_and_authors_and_all_paths(built, tab):
    tab.goto((built / "index.html").as_uri())
    cards = tab.locator(".cards li")
    titles = cards.locator("p:first-child > strong:first-child").all_inner_texts()
    assert titles == ["I want to learn.", "I teach.", "I want to fix or write something.", *PATHS]
    links = [link.get_attribute("href") for link in cards.locator("a").all()]
    assert {"#start", "docs/workshop.html", "docs/instructors.html", "CONTRIBUTING.html", "docs/authors.html"} <= {
        *links
    }
    assert links[-len(PATHS) :] == ["notebooks/ch00_start.html"] * len(PATHS)


@pytest.mark.nightly
def test_a_chapter_opens_where_it_can_run(built, tab):
    tab.goto((built / f"notebooks/{CHAPTER}.html").as_uri())
    links = [link.get_attribute("href") for link in tab.locator("a").all()]
    assert "https://codespaces.new/owner/course" in links
    assert f"https://mybinder.org/v2/gh/owner/course/main?urlpath=lab/tree/notebooks/{CHAPTER}.ipynb" in links


@pytest.mark.nightly
def test_a_quiz_answers_to_the_mouse_and_to_the_keyboard(built, tab):
    tab.goto((built / f"notebooks/{CHAPTER}.html").as_uri())
    quiz = tab.locator("form.quiz", has_text="order_of_get")
    quiz.get_by_text("c, a, b: the order in which the tasks end.").click()
    quiz.get_by_role("button").click()
    expect(quiz.get_by_role("status")).to_have_text(
        "✘ You’d get this order from a loop around ray.wait that is faster than the tasks."
    )
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("ArrowDown")
    expect(quiz.get_by_role("status")).to_be_empty()
    tab.keyboard.press("Enter")
    expect(quiz.get_by_role("status")).to_contain_text("✔ Right: ray.get waits for all of them")


@pytest.mark.nightly
def test_formulas_are_drawn_with_the_courses_own_fonts(built, tab):
    tab.goto((built / f"notebooks/{CHAPTER}.html").as_uri())
    expect(tab.locator(".math .katex").first).to_be_visible()
    assert tab.evaluate("document.fonts.ready.then(() => document.fonts.check('16px KaTeX_Math'))")
    assert tab.locator(".katex-error").count() == 0


@pytest.mark.nightly
def test_a_page_is_dark_for_those_who_want_it_dark(built, browser):
    seen = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        tab = context.new_page()
        tab.goto((built / f"notebooks/{CHAPTER}.html").as_uri())
        seen.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert seen == ["rgb(255, 255, 255)", "rgb(18, 18, 18)"]


@pytest.mark.nightly
def test_every_exercise_is_found_by_the_search(address, tab):
    tab.goto(f"{address}/search.html")
    tab.wait_for_function("Search.hasIndex()")
    names = {(name, item) for name in CHAPTERS for item, _, _ in site.exercises(site.page(name, TEXTS))}
    search = "name => Search._performSearch(...Search._parseQuery(name)).map(found => found[0])"
    lost = [item for chapter, item in names if f"notebooks/{chapter}" not in tab.evaluate(search, item)]
    assert len(names) > 80
    assert lost == []


@pytest.mark.nightly
@pytest.mark.parametrize("opened", ["on the web", "from a folder"])
def test_a_reader_types_the_name_of_an_exercise_and_lands_in_its_chapter(opened, address, built, tab):
    tab.goto(f"{address if opened == 'on the web' else built.as_uri()}/index.html")
    tab.keyboard.press("Control+K")
    tab.keyboard.type("bounded_map")
    tab.keyboard.press("Enter")
    tab.locator(f'.bd-search-container a[href*="notebooks/{CHAPTER}.html"]').first.click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Tasks")


@pytest.mark.nightly
@pytest.mark.parametrize("opened", ["on the web", "from a folder"])
def test_each_page_leads_to_itself_in_the_other_language_whose_search_finds_its_words(opened, address, built, tab):
    tab.goto(f"{address if opened == 'on the web' else built.as_uri()}/docs/glossary.html")
    tab.get_by_role("link", name="Deutsch").click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Glossar")
    expect(tab.locator("html")).to_have_attribute("lang", "de")
    tab.wait_for_load_state()  # the page's scripts listen to its keys
    tab.keyboard.press("Control+K")
    tab.keyboard.type("Prozesspool")
    tab.keyboard.press("Enter")
    found = tab.locator(".bd-search-container section:visible", has=tab.get_by_role("heading", name="Kapitel"))
    found.locator(f'a[href*="notebooks/{CHAPTER}.html"]').first.click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Kapitel 1 · Tasks")
    tab.get_by_role("link", name="English").click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Chapter 1 · Tasks")


@pytest.mark.nightly
def test_the_chinese_search_finds_words_within_sentences_and_speaks_chinese(built, tab):
    tab.goto(f"{(built / 'zh/search.html').as_uri()}?q=在途任务")
    expect(tab.locator("#search-results")).to_contain_text("搜索完成")
    assert f"{CHAPTER}.html" in tab.locator(".bd-search-container section:visible a").first.get_attribute("href")


@pytest.mark.nightly
def test_in_german_are_the_translated_chapters_and_the_map_leads_to_the_others_in_english(built, tab):
    german = sorted(path.stem for path in (built / "de/notebooks").glob("*.html"))
    assert german == [name for name in CHAPTERS if site.page(name, GERMAN).metadata.text_language == "de"]
    tab.goto((built / "de/index.html").as_uri())
    links = [link.get_attribute("href") for link in tab.locator(".learners-map:visible a").all()]
    assert links == [f"{'' if name in german else '../'}notebooks/{name}.html" for name in CHAPTERS]


@pytest.mark.nightly
@pytest.mark.parametrize("language", ["en", "de"])
def test_a_page_says_how_much_of_each_chapter_is_translated(language, built, tab):
    tab.goto((site.places()[language] / "translations.html").as_uri())
    texts = site.texts_in(language)
    assert tab.locator("td:nth-child(2)").all_inner_texts() == [
        translation_files.said(state, texts["stale"]) for state, *_ in site._states().values()
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("opened", ["on the web", "from a folder"])
def test_the_search_shows_excerpts_and_keeps_what_instructors_read_apart(opened, address, built, tab):
    tab.goto(f"{address if opened == 'on the web' else built.as_uri()}/search.html?q=actor+pool")
    parts = tab.locator(".bd-search-container section:visible")
    expect(parts.first.locator("li", has_text="Chapter 1 · Tasks")).to_contain_text("Python’s multiprocessing module")
    expect(tab.locator("#search-results")).to_contain_text("Search finished")  # the pages come one after another
    expect(tab.locator("#search-results li")).to_have_count(0)
    found = {part.locator("h3").inner_text(): part.locator("a").all() for part in parts.all()}
    places = {part: {link.get_attribute("href").split("/")[0] for link in links} for part, links in found.items()}
    assert places == {"Chapters": {"notebooks"}, "Guide": {"docs"}, "For instructors": {"docs"}}


@pytest.mark.nightly
def test_on_a_phone_the_map_has_every_chapters_whole_title_and_every_arrow(built, browser):
    context = browser.new_context(viewport=PHONE)
    tab = context.new_page()
    tab.goto((built / "index.html").as_uri())
    chapters = tab.locator(".learners-map:visible a")
    assert [link.get_attribute("href") for link in chapters.all()] == [f"notebooks/{name}.html" for name in CHAPTERS]
    for chapter in chapters.all():
        title, box = (chapter.locator(part).bounding_box() for part in ("text", "rect"))
        assert title["height"] >= 12
        assert title["x"] + title["width"] < box["x"] + box["width"] <= PHONE["width"]
    arrows = tab.locator(".learners-map.wide path[id]").count()
    assert tab.locator(".learners-map:visible path[stroke]").count() == arrows > len(CHAPTERS)
    context.close()
