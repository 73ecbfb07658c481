"""A learner's copies in another language: the text is translated, everything else stays, and so does what the learner wrote."""

import functools
import os
import re
import subprocess
from pathlib import Path

import polib
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell as code
from nbformat.v4 import new_markdown_cell as text
from nbformat.v4 import new_output
from typer.testing import CliRunner

from coursekit.author.translatable import texts
from coursekit.basics.errors import CommandError
from coursekit.basics.markdown_blocks import blocks
from coursekit.basics.paths import ROOT
from coursekit.basics.readers_language import chosen
from coursekit.basics.translated_cells import MARK, in_language
from coursekit.basics.translations import INTERFACE, languages, translated
from coursekit.cli import app
from coursekit.machine import lab, learners_folder, linked
from coursekit.machine.copies import as_built, behind, fill, read
from coursekit.machine.update import switch, update
from tests.chapters import CHAPTERS
from tests.learners import Desk, exercise, publish

TABLE = "| a name | a number |\n|---|---|\n| one | 1 |"
PROSE, AFTER = "Read this.\nIt has two lines.\n\n- a first item", "And then."
GUESS = 'predict("one_second", ...)'
CHAPTER = [text(PROSE), code("show(1)"), *exercise("one"), text(AFTER), code(GUESS), text(TABLE)]
GERMAN = {
    "ch01_a": "Kapitel",
    "Read this.\nIt has two lines.": "Lies das.\nEs hat zwei Zeilen.",
    "a first item": "ein erster Punkt",
    AFTER: "Und dann.",
    "| a name | a number |": "| ein Name | eine Zahl |",
}
SOLVED = "def one(x):\n    return x + 1"


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSEKIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def desk(tmp_path) -> Desk:
    """Return a learner who has not started yet; the course knows some German, and nothing of its second chapter."""
    publish(tmp_path, "1", ch01_a=CHAPTER, ch02_b=[text(PROSE)])
    translate(tmp_path, GERMAN)
    return Desk(tmp_path)


def translate(root: Path, entries: dict[str, str], language: str = "de") -> None:
    kinds = {block.text: block.kind for cell in [text("# ch01_a"), *CHAPTER] for block in blocks(cell.source)}
    save(
        [
            polib.POEntry(msgctxt=kinds.get(source, "paragraph"), msgid=source, msgstr=said)
            for source, said in entries.items()
        ],
        root / f"locale/{language}/ch01_a.po",
    )


def save(entries: list[polib.POEntry], path: Path) -> None:
    file = polib.POFile(wrapwidth=0)
    file.extend(entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    file.save(str(path))
    translated.cache_clear()


def say(desk: Desk, language: str) -> str:
    report = switch(desk.root, language)
    assert report.problems == []
    return "\n".join(report.lines)


def without_text(cells: list[NotebookNode]) -> list[dict]:
    return [{**cell, "source": "" if cell.cell_type == "markdown" else cell.source} for cell in cells]


def test_a_first_start_in_german_has_german_text(desk):
    assert "Copied 2 notebooks" in say(desk, "de")
    assert "Lies das.\nEs hat zwei Zeilen.\n\n- ein erster Punkt" in desk.sources("ch01_a")
    assert behind(desk.root) == ""


def test_all_but_the_text_is_the_courses_byte_for_byte(desk):
    say(desk, "de")
    assert without_text(desk.read("ch01_a").cells) == without_text(read(desk.root / "notebooks/ch01_a.ipynb").cells)


@pytest.mark.parametrize("name", CHAPTERS)
def test_in_every_chapter_each_text_is_translated_and_nothing_else_changes(name, tmp_path):
    for file in (name, INTERFACE):
        save(_all_shouted(file), tmp_path / f"locale/de/{file}.po")
    cells = as_built(read(ROOT / f"notebooks/{name}.ipynb").cells)
    german = in_language(cells, name, "de", tmp_path)
    assert without_text(german) == without_text(cells)
    assert not [cell.source for cell in german if MARK in cell.source or _still_english(cell)]


@functools.cache
def _all_shouted(file: str) -> list[polib.POEntry]:
    return [
        polib.POEntry(msgctxt=each.context, msgid=each.source, msgstr=_shouted(each.source)) for each in texts(file)
    ]


def _shouted(source: str) -> str:
    return f"!{source}"


def _still_english(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and any(block.kind and "!" not in block.text for block in blocks(cell.source))


def test_what_the_builder_wrote_above_answers_is_translated(tmp_path):
    above = "**Quiz · 2 points.** Which one?\n\n- **a)** This one.\n- **b)** That one."
    german = {
        ("author/build", "**Quiz · {plural(item.points, 'point')}.** {item.question}\n\n{options}"): (
            "**Frage · {plural(item.points, 'point')}.** {item.question}\n\n{options}"
        ),
        ("noun", "points"): "Punkte",
        ("heading", "A title"): "Ein Titel",
        ("quiz one", "Which one?"): "Welche?",
        ("quiz one a", "This one."): "Diese.",
    }
    save(
        [polib.POEntry(msgctxt=key[0], msgid=key[1], msgstr=said) for key, said in german.items()],
        tmp_path / "locale/de/ch01_a.po",
    )
    cells = in_language([text("# A title"), text(above), *exercise("one")[1:]], "ch01_a", "de", tmp_path)
    assert cells[1].source == f"**Frage · 2 Punkte.** Welche?\n\n- **a)** Diese.\n- **b)** That one.{MARK}"


def test_what_is_not_translated_is_english_with_a_mark(desk):
    translate(desk.root, {"Read this.\nIt has two lines.": "Lies das.", "And then, once.": "Und dann, einmal."})
    say(desk, "de")
    sources = desk.sources("ch01_a")
    assert f"Lies das.\n\n- a first item{MARK}" in sources
    assert f"{AFTER}{MARK}" in sources
    assert TABLE.replace("number |", f"number {MARK}|").replace("| 1 |", f"| 1 {MARK}|") in sources


def test_a_chapter_that_nobody_translated_stays_english_without_marks(desk):
    publish(desk.root, "1", ch01_a=CHAPTER, ch02_b=[text(PROSE), *exercise("one")])
    template = "**Exercise `{name}`** · {points}"
    save(
        [polib.POEntry(msgctxt="author/build", msgid=template, msgstr=f"!{template}")],
        desk.root / "locale/de/interface.po",
    )
    say(desk, "de")
    assert desk.path("ch02_b").read_bytes() == (desk.root / "notebooks/ch02_b.ipynb").read_bytes()


def test_switching_there_and_back_keeps_an_answer_a_guess_and_a_cell_of_their_own(desk):
    say(desk, "de")
    desk.write("ch01_a", "def one", SOLVED)
    desk.write("ch01_a", GUESS, GUESS.replace("...", "1.5"))
    desk.add("ch01_a", "Und dann.", text("My own note."))
    german = desk.sources("ch01_a")
    assert "1 answer carried over, 1 prediction carried over, 1 cell of your own" in say(desk, "en")
    english = desk.sources("ch01_a")
    assert PROSE in english
    assert not [source for source in english if "Lies" in source or MARK in source]
    assert [english[german.index(mine)] for mine in (SOLVED, "My own note.")] == [SOLVED, "My own note."]
    say(desk, "de")
    assert desk.sources("ch01_a") == german


def test_a_text_that_the_learner_has_edited_stays_in_its_place(desk):
    say(desk, "de")
    desk.write("ch01_a", "Und dann.", "Und dann, sage ich.")
    german = desk.sources("ch01_a")
    say(desk, "en")
    assert desk.sources("ch01_a")[german.index("Und dann, sage ich.")] == "Und dann, sage ich."
    assert len(desk.sources("ch01_a")) == len(german)


def test_an_update_brings_german_text_up_to_date_and_never_calls_it_the_learners(desk):
    say(desk, "de")
    new = [text("Read this instead."), *CHAPTER[1:]]
    publish(desk.root, "2", ch01_a=new, ch02_b=[text(PROSE)])
    translate(desk.root, {**GERMAN, "Read this instead.": "Lies stattdessen das.", AFTER: "Und danach."})
    assert "version 1, and the course is at 2" in behind(desk.root)
    lines = "\n".join(update(desk.root).lines)
    assert "ch01_a: brought up to date" in lines
    sources = desk.sources("ch01_a")
    assert "Lies stattdessen das." in sources
    assert "Und danach." in sources
    assert len(sources) == len(new) + 1
    assert behind(desk.root) == ""


@pytest.mark.parametrize("language", ["en", "de"])
def test_german_text_is_the_courses_also_where_the_original_is_lost(desk, language):
    say(desk, "de")
    (desk.root / "work/.course/ch01_a.ipynb").unlink()
    desk.write("ch01_a", "def one", SOLVED)
    say(desk, language)
    assert "cell of your own" not in "\n".join(update(desk.root).lines)
    assert len(desk.sources("ch01_a")) == len(CHAPTER) + 1
    assert SOLVED in desk.sources("ch01_a")
    assert (PROSE in desk.sources("ch01_a")) == (language == "en")


def test_what_was_run_is_kept_beside_the_new_text_also_where_the_original_is_lost(desk):
    publish(desk.root, "1", ch02_b=[text(PROSE), code("show(1)")])
    say(desk, "de")
    cells = desk.read("ch02_b").cells
    cells[-1].outputs = [new_output("stream", text="1")]
    desk.change("ch02_b", cells)
    (desk.root / "work/.course/ch02_b.ipynb").unlink()
    publish(desk.root, "2", ch02_b=[text(PROSE), text(AFTER), code("show(1)")])
    assert "your old file is" in "\n".join(update(desk.root).lines)


def test_the_line_above_an_answer_is_german_also_where_the_answer_in_notebooks_was_edited(desk):
    template = "**Exercise `{name}`** · {points}"
    save(
        [polib.POEntry(msgctxt="author/build", msgid=template, msgstr=template.replace("Exercise", "Aufgabe"))],
        desk.root / "locale/de/interface.po",
    )
    published = desk.root / "notebooks/ch01_a.ipynb"
    published.write_text(published.read_text().replace("raise NotImplementedError", "return x or NotImplementedError"))
    say(desk, "de")
    assert "**Aufgabe `one`** · 1 point" in desk.sources("ch01_a")
    assert behind(desk.root) == ""


def test_a_better_translation_reaches_the_copies_with_an_update(desk):
    say(desk, "de")
    translate(desk.root, {**GERMAN, AFTER: "Und danach."})
    assert "`coursekit update`" in behind(desk.root)
    update(desk.root)
    assert "Und danach." in desk.sources("ch01_a")
    assert "nothing to do" in "\n".join(update(desk.root).lines)


LINK = re.compile(r"\]\(([\w./]+\.\w+)(?:#([\w-]+))?\)")  # to a file, and a place in it
MAP = "![A map](../img/ch01_map.svg)"


@pytest.fixture
def drawn(desk) -> Desk:
    """Return a learner whose first chapter shows a diagram, of which one of two texts is translated."""
    publish(desk.root, "1", ch01_a=[text(PROSE), text(MAP)], ch02_b=[text(MAP)])
    (desk.root / "img").mkdir()
    (desk.root / "img/ch01_map.svg").write_text("<svg><text>a worker</text><text>nobody</text></svg>")
    add(desk.root / "locale/de/ch01_a.po", "picture ch01_map", "a worker", "ein Worker")
    return desk


def add(path: Path, context: str, source: str, said: str) -> None:
    save([*polib.pofile(str(path)), polib.POEntry(msgctxt=context, msgid=source, msgstr=said)], path)


def test_a_copy_shows_its_diagrams_in_its_language_and_english_again(drawn):
    say(drawn, "de")
    assert drawn.sources("ch01_a")[2].startswith("![A map](de/img/ch01_map.svg)")
    picture = drawn.root / "work/de/img/ch01_map.svg"
    assert picture.read_text() == "<svg><text>ein Worker</text><text>nobody</text></svg>"
    assert drawn.sources("ch02_b")[1] == MAP  # of this chapter nothing is translated
    say(drawn, "en")
    assert drawn.sources("ch01_a")[2] == MAP


def test_a_diagram_that_is_drawn_or_translated_anew_reaches_the_learner_with_the_next_start(drawn):
    say(drawn, "de")
    (drawn.root / "img/ch01_map.svg").write_text("<svg><text>a worker</text><text>somebody</text></svg>")
    add(drawn.root / "locale/de/ch01_a.po", "picture ch01_map", "somebody", "jemand")
    assert behind(drawn.root) == ""
    fill(drawn.root)
    picture = drawn.root / "work/de/img/ch01_map.svg"
    assert picture.read_text() == "<svg><text>ein Worker</text><text>jemand</text></svg>"


def test_a_diagram_without_translations_stays_the_courses(desk):
    publish(desk.root, "1", ch01_a=[text(PROSE), text(MAP)])
    (desk.root / "img").mkdir()
    (desk.root / "img/ch01_map.svg").write_text("<svg><text>a worker</text></svg>")
    say(desk, "de")
    assert MAP in desk.sources("ch01_a")[2]
    assert not (desk.root / "work/de").exists()


def test_a_copy_leads_to_the_glossary_in_its_language_and_that_to_the_learners_copies(desk):
    terms = "Read about an [actor](../docs/glossary.md#actor), or [more](../docs/hub.md)."
    publish(desk.root, "1", ch01_a=[text(PROSE), text(terms)])
    (desk.root / "docs").mkdir()
    page = (
        "# Glossary\n\n## actor\n\nSee [Chapter 1](../notebooks/ch01_a.ipynb#x), [old](old.md), and [it](https://a.b)."
    )
    (desk.root / "docs/glossary.md").write_text(page)
    translate(desk.root, {"actor": "Akteurin"} | {"Read this.\nIt has two lines.": "Lies das."})
    save([polib.POEntry(msgctxt="docs/glossary.md", msgid="actor", msgstr="Actor")], desk.root / "locale/de/pages.po")
    say(desk, "de")
    assert "[actor](de/docs/glossary.md#actor), or [more](../docs/hub.md)" in desk.sources("ch01_a")[2]
    german = (desk.root / "work/de/docs/glossary.md").read_text()
    assert '<a id="actor"></a>\n\n## Actor\n\n' in german
    assert "[Chapter 1](../../ch01_a.ipynb#x), [old](../../../docs/old.md), and [it](https://a.b)" in german
    say(desk, "en")
    assert desk.sources("ch01_a")[2] == terms


@pytest.mark.parametrize("language", languages())
def test_all_that_a_translated_copy_leads_to_is_there(language, tmp_path):
    """In a folder that leads to the course, as on a hub and beside a wheel."""
    folder = learners_folder.link_to_course(tmp_path / "learner")
    linked.write(folder, language)
    copies = {name: as_built(read(ROOT / f"notebooks/{name}.ipynb").cells) for name in CHAPTERS}
    translations = {name: linked.for_copy(cells, name, language, folder) for name, cells in copies.items()}
    texts = {folder / f"work/{name}.ipynb": "\n".join(cell.source for cell in translations[name]) for name in copies}
    pages = {path: path.read_text() for path in (folder / f"work/{language}/docs").glob("*.md")}
    assert pages
    led = set[tuple[Path, str]]()
    for path, shown in (texts | pages).items():
        for target, place in LINK.findall(shown):
            there = Path(os.path.normpath(path.parent / target))
            assert there in texts or there.is_file(), (path, target)
            assert not place or there not in pages or f'<a id="{place}"></a>' in pages[there], (path, target, place)
            led.add((path, f"{there.parent.relative_to(folder)}/"))
    for name in copies:
        english = translations[name] is copies[name]
        assert ((folder / f"work/{name}.ipynb", f"work/{language}/img/") in led) == (not english)
        assert ((folder / f"work/{name}.ipynb", "img/") in led) == english
        assert ((folder / f"work/{name}.ipynb", f"work/{language}/docs/") in led) == (not english)


def test_the_language_is_remembered(desk):
    say(desk, "de")
    desk.path("ch01_a").unlink()
    assert say(desk, "") == say(desk, "de") == ""
    fill(desk.root)
    assert chosen(desk.root) == "de"
    assert "Und dann." in desk.sources("ch01_a")


def test_a_switch_that_was_interrupted_is_finished_by_an_update(desk, monkeypatch):
    fill(desk.root)
    desk.write("ch01_a", "def one", SOLVED)
    with monkeypatch.context() as stopped:
        stopped.setattr("coursekit.machine.copies.keep_original", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            switch(desk.root, "de")
    assert "Und dann." in desk.sources("ch01_a")
    assert "`coursekit update`" in behind(desk.root)
    german = desk.sources("ch01_a")
    update(desk.root)
    assert desk.sources("ch01_a") == german
    assert behind(desk.root) == ""


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_unknown_language_is_refused_before_anything_is_copied(desk):
    with pytest.raises(CommandError, match=r"no translation into 'fr'. There are: en, de\."):
        switch(desk.root, "fr")
    assert not desk.path("ch01_a").exists()
    assert chosen(desk.root) == "en"


def test_lab_takes_the_language_and_a_later_start_keeps_it(desk, monkeypatch):
    started = []
    monkeypatch.setattr(lab, "start", lambda *how: started.append(how))
    monkeypatch.setattr(learners_folder, "learners_folder", lambda: desk.root)
    monkeypatch.setattr(learners_folder, "link_to_course", lambda folder: folder)
    assert "now in de; what is marked EN" in CliRunner().invoke(app, ["lab", "--in", "de"]).output
    german = desk.sources("ch01_a")
    assert "Und dann." in german
    assert "jetzt in der Sprache" not in CliRunner().invoke(app, ["lab"]).output
    assert desk.sources("ch01_a") == german
    assert "Eine Übersetzung in die Sprache 'fr' gibt es nicht" in CliRunner().invoke(app, ["lab", "--in", "fr"]).output
    assert len(started) == 2


def test_make_lab_hands_the_language_over():
    shown = subprocess.run(["make", "-n", "lab", "IN=de"], cwd=ROOT, capture_output=True, text=True).stdout
    assert "coursekit lab  --in de" in shown
