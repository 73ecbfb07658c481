"""Cells of an instructor's own notebook, as nbgrader's toolbar marks them."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def nbgrader_cell(cell: nbformat.NotebookNode, name: str, **flags: object) -> nbformat.NotebookNode:
    """Return a cell with the metadata that nbgrader's toolbar writes."""
    base = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    cell.metadata.nbgrader = base | {"grade_id": name, "cell_type": cell.cell_type} | flags
    return cell


def locked(name: str, source: str, grade: bool = True, **points: int) -> nbformat.NotebookNode:
    return nbgrader_cell(new_code_cell(source), name, grade=grade, locked=True, **points)


def task(text: str, name: str, points: int) -> nbformat.NotebookNode:
    return nbgrader_cell(new_markdown_cell(text), name, task=True, locked=True, points=points)


def answer(source: str, name: str = "answer") -> nbformat.NotebookNode:
    return nbgrader_cell(new_code_cell(source), name, solution=True)


def by_hand(cell: nbformat.NotebookNode, name: str, points: int) -> nbformat.NotebookNode:
    return nbgrader_cell(cell, name, grade=True, solution=True, points=points)
