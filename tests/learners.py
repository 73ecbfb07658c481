"""A learner for the tests: the course as they get it, small courses of two versions, and what they do to their copies."""

import zipfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.utils import compute_checksum

from coursekit.author.build import KERNEL, _name_cells
from coursekit.grading.desk.release import write_zip
from coursekit.judging.failure import STUB
from coursekit.machine.copies import text_of
from tests.nbgrader_cells import answer, locked


def unpacked(folder: Path) -> Path:
    """Return the course as a learner has it, unpacked from their zip in a folder; nothing of it touches this checkout's work/."""
    zipfile.ZipFile(write_zip(folder / "learners.zip")).extractall(folder)
    return folder / "ray-rl-course"


def exercise(name: str, arguments: str = "x", points: int = 1) -> list[NotebookNode]:
    """Return the cells of an exercise as a learner gets them: its text, the stub, the check."""
    stub = answer(f"def {name}({arguments}):\n    {STUB}", f"answer_{name}")
    check = locked(name, f'check("{name}", {name})', points=points)
    for cell in (stub, check):
        cell.metadata.nbgrader.checksum = compute_checksum(cell)
    return [new_markdown_cell(f"**Exercise `{name}`** · {points} point"), stub, check]


def publish(root: Path, version: str, **chapters: list[NotebookNode]) -> Path:
    """Make a folder hold this version of the course: these chapters, each with its title, and no others."""
    (root / "notebooks").mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    for old in (root / "notebooks").glob("*.ipynb"):
        old.unlink()
    for name, cells in chapters.items():
        notebook = new_notebook(cells=[new_markdown_cell(f"# {name}"), *cells], metadata=KERNEL)
        _name_cells(notebook)
        (root / f"notebooks/{name}.ipynb").write_text(text_of(notebook))
    return root


class Desk:
    """A learner at work on their copies."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, name: str) -> Path:
        return self.root / f"work/{name}.ipynb"

    def read(self, name: str) -> NotebookNode:
        """Return a copy, which must be a valid notebook."""
        notebook = nbformat.read(self.path(name), as_version=4)
        nbformat.validate(notebook)
        assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
        return notebook

    def sources(self, name: str) -> list[str]:
        return [cell.source for cell in self.read(name).cells]

    def change(self, name: str, cells: list[NotebookNode]) -> None:
        notebook = self.read(name)
        notebook.cells = cells
        self.path(name).write_text(text_of(notebook))

    def write(self, name: str, where: str, source: str) -> None:
        """Replace the text of the cell in which something stands."""
        cells = self.read(name).cells
        next(cell for cell in cells if where in cell.source).source = source
        self.change(name, cells)

    def add(self, name: str, after: str, cell: NotebookNode) -> None:
        """Add a cell behind the one in which something stands."""
        cells = self.read(name).cells
        cells.insert(1 + next(index for index, other in enumerate(cells) if after in other.source), cell)
        self.change(name, cells)

    def everything(self) -> list[str]:
        """Return the text of all cells in work/, those of the old files too."""
        paths = sorted((self.root / "work").glob("*.ipynb"))
        return [cell.source for path in paths for cell in nbformat.read(path, as_version=4).cells]
