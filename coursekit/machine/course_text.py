"""The course's text in the language that the learner has chosen, which work/.course/language names; everything else stays as it is."""

from pathlib import Path

from nbformat import NotebookNode

from coursekit.basics.files import write_whole
from coursekit.basics.translations import SOURCE, existing_language, languages, translated

MARK = " <sup>EN</sup>"  # behind a block that nobody has translated as it is now


def chosen(root: Path) -> str:
    """Return the language of the learner's copies, English where none was chosen or its translations are gone."""
    path = _remembered(root)
    language = path.read_text(encoding="utf-8").strip() if path.exists() else SOURCE
    return language if language in languages(root) else SOURCE


def choose(root: Path, language: str) -> None:
    """Remember the language for all copies; raises CommandError for one that the course does not have."""
    path = _remembered(root)
    existing_language(language, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{language}\n")


def in_language(cells: list[NotebookNode], chapter: str, language: str, root: Path) -> list[NotebookNode]:
    """Return cells of the course with their text in a language; a chapter of which nothing is translated stays English, unmarked."""
    if language == SOURCE:
        return cells
    say = translated(chapter, language, root)

    def shown(mark: str) -> list[NotebookNode]:
        return [
            NotebookNode(cell | {"source": say.markdown(cell.source, mark=mark)}) if _is_text(cell) else cell
            for cell in cells
        ]

    return shown(MARK) if shown("") != cells else cells


def _is_text(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and "nbgrader" not in cell.metadata


def _remembered(root: Path) -> Path:
    return root / "work" / ".course" / "language"
