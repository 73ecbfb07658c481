"""Chapters → notebooks: solutions/ is the chapter with nbgrader's metadata, notebooks/ what nbgrader makes of it.

And what pages say of all chapters.
"""

from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from coursekit.author import listings
from coursekit.author.tags import roles_of_cells
from coursekit.basics.cards import plural
from coursekit.basics.cells import PREDICT, content_digest, prediction
from coursekit.basics.paths import ROOT
from coursekit.judging import exercise
from coursekit.judging.exercise import AuthorError, Exercise, Quiz

KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def build(root: Path = ROOT) -> dict[Path, str]:
    """Return every file that is made from the chapters and the text that it must have; raises AuthorError with file and line."""
    texts, problems = {}, []
    for chapter in sorted(root.glob("chapters/ch*.py")):
        try:
            solved = solved_notebook(chapter)
            texts[root / "solutions" / f"{chapter.stem}.ipynb"] = _text(solved)
            texts[root / "notebooks" / f"{chapter.stem}.ipynb"] = _text(learner_notebook(solved))
        except AuthorError as error:
            problems.append(str(error))
    if problems:
        raise AuthorError("\n".join(problems))
    return texts | listings.pages(root)


def stale(built: dict[Path, str], root: Path = ROOT) -> list[Path]:
    """Return the files that are missing, out of date, or whose chapter is gone."""
    notebooks = {path for folder in ("notebooks", "solutions") for path in (root / folder).glob("*.ipynb")}
    changed = {path for path, text in built.items() if not path.exists() or path.read_text(encoding="utf-8") != text}
    return sorted(changed | (notebooks - built.keys()))


def write(built: dict[Path, str], root: Path = ROOT) -> list[Path]:
    """Write what is stale, delete what has no chapter, and return the paths that changed."""
    outdated = stale(built, root)
    for path in outdated:
        if path in built:
            path.parent.mkdir(exist_ok=True)
            path.write_text(built[path], encoding="utf-8")
        else:
            path.unlink()
    return outdated


def solved_notebook(chapter: Path) -> NotebookNode:
    """Return a chapter as an nbgrader source notebook: questions shown, metadata derived from the code."""
    notebook = jupytext.read(chapter, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(KERNEL)
    items = exercise.load(chapter.stem)
    roles = roles_of_cells(chapter, notebook.cells, items)
    cells: list[NotebookNode] = []
    for cell, role in zip(notebook.cells, roles, strict=True):
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if role and role.answer:
            _introduce(cells, role.item)
        cell.metadata.update(role.metadata() if role else {})
        cells.append(cell)
    notebook.cells = [_with_slide(cell) for cell in cells]
    _name_cells(notebook)
    return notebook


def learner_notebook(solved: NotebookNode) -> NotebookNode:
    """Return the notebook that nbgrader's generate_assignment makes of a solved one."""
    from traitlets.config import Config

    from coursekit.author import nbgrader_config

    notebook, resources = nbformat.from_dict(solved), dict[str, object]()
    for preprocessor in nbgrader_config.PREPROCESSORS:
        if preprocessor is not nbgrader_config.SaveCells:  # it only writes the gradebook
            notebook, resources = preprocessor(config=Config())(notebook, resources)
    return notebook


def _introduce(cells: list[NotebookNode], item: Exercise | Quiz) -> None:
    """Say above an answer cell what it is worth; above a quiz, show the question and its options."""
    if isinstance(item, Quiz):
        options = "\n".join(f"- **{letter})** {text}" for letter, (text, _) in item.options.items())
        cells.append(_markdown(f"**Quiz · {plural(item.points, 'point')}.** {item.question}\n\n{options}"))
        return
    worth = f"{plural(item.points, 'point')} · about {plural(item.minutes, 'minute')}"
    cells.append(_markdown(f'**Exercise `{item.name}`** · {worth} · stuck? `hint("{item.name}")`'))


def _markdown(source: str) -> NotebookNode:
    return nbformat.from_dict({"cell_type": "markdown", "metadata": {}, "source": source})


def _with_slide(cell: NotebookNode) -> NotebookNode:
    """Begin a slide at each heading: `#` and `##` to the right, `###` below; speaker notes go to the speaker."""
    kind = "-"
    if cell.cell_type == "markdown":
        first = cell.source.lstrip().partition(" ")[0]
        kind = {"#": "slide", "##": "slide", "###": "subslide"}.get(first, "-")
    if "notes" in cell.metadata.get("tags", []):
        kind = "notes"
    if kind != "-":
        cell.metadata["slideshow"] = {"slide_type": kind}
    return cell


def _name_cells(notebook: NotebookNode) -> None:
    """Name each cell after its content, in which a text's line breaks do not count; a prediction's by its name, since it's filled in."""
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        digest, asked = content_digest(cell), prediction(cell.source) if cell.cell_type == "code" else None
        cell.id = PREDICT + asked.name if asked else f"{digest}-{seen[digest]}"
        seen[digest] += 1
    notebook.nbformat, notebook.nbformat_minor = 4, 5


def _text(notebook: NotebookNode) -> str:
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1, sort_keys=True) + "\n"
