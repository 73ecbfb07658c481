"""The text of a chapter's cells and diagrams in another language; code, ids and metadata stay as they are."""

import re
from itertools import zip_longest
from pathlib import Path

from nbformat import NotebookNode

from coursekit.basics.cells import ANSWER
from coursekit.basics.translations import SOURCE, Translations, flowing, place_of, translated

MARK = " <sup>EN</sup>"  # behind a block that nobody has translated as it is now
_ABOVE_ANSWERS = "author/build"  # the context of what the builder writes there
PICTURE_TEXT = re.compile(r'(?<=aria-label=")[^"]+|(?<=>)(?:[^<>]|</?tspan[^>]*>)+(?=</text>)')
_OPTION = re.compile(r"^(- \*\*([a-z])\)\*\* )(.+)$", re.MULTILINE)


def is_translated(cells: list[NotebookNode], say: Translations) -> bool:
    """Return whether anything of a chapter's text is translated."""
    return any(say.markdown(cell.source) != cell.source for cell in cells if _is_text(cell))


def in_language(
    cells: list[NotebookNode], chapter: str, language: str, root: Path, a_line_each: bool = False
) -> list[NotebookNode]:
    """Return cells of the course with their text in a language; a chapter of which nothing is translated stays English, unmarked.

    With `a_line_each`, Chinese sentences stand on a line each, as English ones do, for what takes a text apart.
    """
    if language == SOURCE or not is_translated(cells, say := translated(chapter, language, root)):
        return cells
    shown = str if a_line_each else flowing
    return [
        NotebookNode(cell | {"source": shown(_translated(cell, _exercise(below), say))}) if _is_text(cell) else cell
        for cell, below in zip_longest(cells, cells[1:])
    ]


def in_picture(svg: str, name: str, say: Translations) -> str:
    """Return a diagram with its text translated."""
    return PICTURE_TEXT.sub(lambda text: say(f"picture {name}", text[0]).text, svg)


def _translated(cell: NotebookNode, exercise: str, say: Translations) -> str:
    """Return a cell's text translated; `exercise` is the one whose answer comes next, if any does."""

    def value(place: str, text: str) -> str:
        number, _, noun = text.partition(" ")
        if place == "item.question":
            return say.markdown(text, f"quiz {exercise}", MARK)
        if place == "options":
            return _OPTION.sub(lambda each: each[1] + say.markdown(each[3], f"quiz {exercise} {each[2]}", MARK), text)
        if place == "worth":
            return say.made(_ABOVE_ANSWERS, text, value) or text
        return f"{number} {say('noun', noun).text}" if place.startswith("plural(") else text

    made = say.made(_ABOVE_ANSWERS, cell.source, value) if exercise else None
    return made or say.markdown(cell.source, place_of(cell.metadata.get("tags", [])), MARK)


def _exercise(cell: NotebookNode | None) -> str:
    """Return the exercise that a cell has the answer to, "" if none."""
    name = str(cell.metadata.get("nbgrader", {}).get("grade_id", "")) if cell else ""
    return name.removeprefix(ANSWER) if name.startswith(ANSWER) else ""


def _is_text(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and "nbgrader" not in cell.metadata
