"""The course's text in the language that the learner has chosen, which work/.course/language names; everything else stays as it is."""

import re
from itertools import zip_longest
from pathlib import Path

from nbformat import NotebookNode

from coursekit.basics.cells import ANSWER
from coursekit.basics.files import write_whole
from coursekit.basics.translations import SOURCE, Translations, languages, translated

MARK = " <sup>EN</sup>"  # behind a block that nobody has translated as it is now
_ABOVE_ANSWERS = "author/build"  # the context of what the builder writes there
_OPTION = re.compile(r"^(- \*\*([a-z])\)\*\* )(.+)$", re.MULTILINE)


def chosen(root: Path) -> str:
    """Return the language of the learner's copies, English where none was chosen or its translations are gone."""
    path = _remembered(root)
    language = path.read_text(encoding="utf-8").strip() if path.exists() else SOURCE
    return language if language in languages(root) else SOURCE


def choose(root: Path, language: str) -> None:
    """Remember the language for all copies."""
    write_whole(_remembered(root), f"{language}\n")


def in_language(cells: list[NotebookNode], chapter: str, language: str, root: Path) -> list[NotebookNode]:
    """Return cells of the course with their text in a language; a chapter of which nothing is translated stays English, unmarked."""
    if language == SOURCE:
        return cells
    say = translated(chapter, language, root)
    if all(say.markdown(cell.source) == cell.source for cell in cells if _is_text(cell)):
        return cells
    return [
        NotebookNode(cell | {"source": _translated(cell.source, _exercise(below), say)}) if _is_text(cell) else cell
        for cell, below in zip_longest(cells, cells[1:])
    ]


def _translated(source: str, exercise: str, say: Translations) -> str:
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

    made = say.made(_ABOVE_ANSWERS, source, value) if exercise else None
    return made or say.markdown(source, mark=MARK)


def _exercise(cell: NotebookNode | None) -> str:
    """Return the exercise that a cell has the answer to, "" if none."""
    name = str(cell.metadata.get("nbgrader", {}).get("grade_id", "")) if cell else ""
    return name.removeprefix(ANSWER) if name.startswith(ANSWER) else ""


def _is_text(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and "nbgrader" not in cell.metadata


def _remembered(root: Path) -> Path:
    return root / "work" / ".course" / "language"
