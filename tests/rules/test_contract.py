"""The chapter contract: what every chapter has, no matter who wrote it."""

import re
import symtable

import nbformat
import pytest

from coursekit.author.listings import openings
from coursekit.basics.cells import prediction
from coursekit.basics.paths import NOTEBOOKS, ROOT, SOLUTIONS
from coursekit.judging.exercise import load
from tests.chapters import CHAPTERS
from tests.prose import crowded_lines, files, two_sentences

COUNTED = [chapter for chapter in CHAPTERS if chapter != "ch00_start"]
GLOSSARY = ROOT / "docs/glossary.md"
PROSE = [*sorted(ROOT.glob("chapters/*.py")), *files("docs", ".md"), ROOT / "README.md"]


def text_of(chapter: str, kind: str = "markdown", folder=NOTEBOOKS) -> str:
    notebook = nbformat.read(folder / f"{chapter}.ipynb", as_version=4)
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == kind)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter_opens_with_objectives_minutes_and_what_it_builds_on(chapter):
    opening = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4).cells[0].source
    assert re.match(r"# Chapter \d+ · [^.,:]+\n\n[A-Z].+\.\n\n\*About ", opening)  # the topic, and below it the claim
    assert re.search(r"^\*About \d+ minutes · builds on .+\*$", opening, re.MULTILINE)
    assert len(re.findall(r"^- ", opening.partition("**What you will be able to do**")[2], re.MULTILINE)) >= 2


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter_closes_with_what_one_can_do_the_traps_and_where_to_read_on(chapter):
    headings = re.findall(r"^## (.+)$", text_of(chapter), re.MULTILINE)
    assert headings[-3:] == ["What you can do now", "Traps", "Read on"]


@pytest.mark.parametrize("chapter", COUNTED)
def test_chapter_has_three_to_six_exercises_and_three_quizzes(chapter):
    kinds = [item.kind for item in load(chapter).values()]
    assert 3 <= kinds.count("exercise") <= 6
    assert kinds.count("quiz") >= 3


@pytest.mark.parametrize("chapter", COUNTED)
def test_chapter_shows_a_diagram_of_its_own_and_a_plot_of_the_readers_measurement(chapter):
    assert re.search(rf"\]\(\.\./img/{chapter[:4]}_\w+\.svg\)", text_of(chapter))
    assert re.search(r"timeline\(|\.plot\(|axes?\.\w+\(", text_of(chapter, "code"))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_picture_exists_and_says_what_it_shows(chapter):
    for caption, path in re.findall(r"!\[(.*?)\]\((.*?)\)", text_of(chapter)):
        assert len(caption) > 10
        assert (NOTEBOOKS / path).resolve().is_file()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_link_to_a_chapter_leads_to_it(chapter):
    assert set(re.findall(r"\]\((ch\d\d_\w+)\.ipynb\)", text_of(chapter))) <= set(CHAPTERS)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter_asks_for_predictions_and_has_speaker_notes(chapter):
    assert "**Predict" in text_of(chapter)
    tags = [cell.metadata.get("tags", []) for cell in nbformat.read(SOLUTIONS / f"{chapter}.ipynb", as_version=4).cells]
    assert ["notes"] in tags
    assert ["solution"] in tags


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_four_or_five_predictions_if_it_is_not_short_and_a_cell_below_each(chapter):
    cells = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4).cells
    asked = [place for place, cell in enumerate(cells) if cell.cell_type == "markdown" and "**Predict" in cell.source]
    answered = [place for place, cell in enumerate(cells) if cell.cell_type == "code" and prediction(cell.source)]
    assert sorted(set(answered)) == [place + 1 for place in asked]
    minutes = next(each.minutes for each in openings() if each.name == chapter)
    assert (4 if minutes > 60 else 1) <= len(asked) <= 5


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_text_is_longer_than_250_words(chapter):
    cells = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4).cells
    counts = {cell.source[:60]: len(cell.source.split()) for cell in cells[:-1] if cell.cell_type == "markdown"}
    closing = ("## What you can do now", "## Traps", "## Read on")
    assert {start: count for start, count in counts.items() if count > 250 and not start.startswith(closing)} == {}


def test_the_glossary_has_each_term_once_in_order_with_the_chapter_that_explains_it():
    found = re.findall(r"^## (.+)\n\n(.+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == GLOSSARY.read_text(encoding="utf-8").count("\n## ")
    terms = [term for term, _ in found]
    assert terms == sorted(set(terms), key=str.casefold)
    assert {*terms} & {f"{term}{ending}" for term in terms for ending in ("s", "age")} == set()  # one form of each
    for term, line in found:
        [chapter] = set(re.findall(r"\(\.\./notebooks/(ch\d\d_\w+)\.ipynb\)", line))
        anchor = re.sub(r"[^\w -]", "", term.lower()).replace(" ", "-")
        assert f"](../docs/glossary.md#{anchor})" in text_of(chapter), term


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_links_its_terms_to_the_glossary(chapter):
    headings = re.findall(r"^## (.+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", term.lower()).replace(" ", "-") for term in headings}
    linked = re.findall(r"\]\(\.\./docs/glossary\.md#([\w-]+)\)", text_of(chapter))
    assert linked
    assert set(linked) <= anchors
    assert len(linked) == len(set(linked))  # at its first use


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_cells_are_short(chapter):
    notebook = nbformat.read(SOLUTIONS / f"{chapter}.ipynb", as_version=4)
    long = [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader") and len(cell.source.splitlines()) > 20
    ]
    assert long == []


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_every_sentence_has_a_line_of_its_own(path):
    assert crowded_lines(path) == []


@pytest.mark.parametrize(
    "line",
    [
        "One. Two.",
        "Really? Yes.",
        "- He said *so.* And left.",
        '> "Done." Then it ended.',
        "Call `f`. `g` follows.",
        "(One.) Two.",
        "**Predict:** one. Two.",
    ],
)
def test_two_sentences_on_a_line_are_seen(line):
    assert list(two_sentences(f"# A title. Here\n\n{line}\n")) == [3]


@pytest.mark.parametrize(
    "line",
    [
        "Ray 2.60 (Mnih et al. 2015), e.g. Python 3.11",
        "- **A lead-in.** One sentence.",
        "1. Write",
        "`f. G` and $1. X$ and [a. B](c.md)",
        "![One. Two.](a.svg)",
        "    print. Code",
        "| a. B | c |\n|---|---|\n| d. E | f |",
        "one.\nTwo",
    ],
)
def test_one_sentence_is_not_taken_for_two(line):
    assert list(two_sentences(line)) == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_cell_takes_a_name_that_the_chapter_imports(chapter):
    names = symtable.symtable((ROOT / f"chapters/{chapter}.py").read_text(), chapter, "exec").get_symbols()
    assert [name.get_name() for name in names if name.is_imported() and name.is_assigned()] == []


def test_a_chapter_has_all_its_files():
    for folder in ("coursekit/exercises", "coursekit/given", "tests/answers"):
        assert sorted(path.stem for path in (ROOT / folder).glob("ch*.py")) == CHAPTERS
