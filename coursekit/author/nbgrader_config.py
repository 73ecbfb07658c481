"""The configuration under which `nbgrader generate_assignment` makes notebooks/ of solutions/, cell for cell.

Copy it into a course folder as nbgrader_config.py: nbgrader runs no submission there outside the sandbox.
"""

from typing import Any, NoReturn

from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    IncludeHeaderFooter,
    InstantiateTests,
    LockCells,
    NbGraderPreprocessor,
    SaveCells,
)

from coursekit.author.tags import without_solutions
from coursekit.judging.exercise import AuthorError

CELL_SECONDS = 180  # a check may train an agent; nbgrader's own limit is 30


def is_for_instructors(cell: NotebookNode) -> bool:
    """Return whether a cell stays out of what is handed out."""
    return bool({"solution", "notes"} & set(cell.metadata.get("tags", [])))


class DropInstructorCells(NbGraderPreprocessor):
    """Leave out the discussion of solutions and the speaker notes."""

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """Return the notebook without the cells that are tagged `solution` or `notes`."""
        nb.cells = [cell for cell in nb.cells if not is_for_instructors(cell)]
        return nb, resources


class ClearAnswers(ClearSolutions):
    """nbgrader's own preprocessor, with a stub that fits its place: a function's body or an assignment."""

    def _replace_solution_region(self, cell: NotebookNode, language: str) -> bool:
        if cell.cell_type != "code" or self.begin_solution_delimeter not in cell.source:
            return False
        try:
            cell.source = without_solutions(cell.source)
        except AuthorError:  # a notebook of your own may hide whatever nbgrader lets you hide
            return bool(super()._replace_solution_region(cell, language))
        return True


class OnlyInTheSandbox(NotebookExporter):
    """What `nbgrader autograde` and formgrader's button meet before they touch anything: a refusal, with our command."""

    def __init__(self, parent: BaseConverter, **more: Any) -> NoReturn:
        course, student = parent.coursedir, parent.coursedir.student_id
        one = course.assignment_id if student == "*" else f"{student}/{course.assignment_id}"
        message = (
            "Nothing was graded: nbgrader would run this submission as you, outside the sandbox, and overwrite its marks. "
            f"Grade it in a terminal, in {course.root}: `coursekit grade submitted --only {one}` "
            "(with --again, if it has been graded before)."
        )
        parent.log.error(message)  # of the exception the command itself says nothing
        raise NbGraderException(message)


PREPROCESSORS = [
    IncludeHeaderFooter,
    DropInstructorCells,
    InstantiateTests,
    LockCells,
    ClearAnswers,
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    SaveCells,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,
    CheckCellMetadata,
]

if "get_config" in globals():  # nbgrader reads this file; importing it as a module only gives the names above
    config = globals()["get_config"]()
    config.GenerateAssignment.preprocessors = PREPROCESSORS
    config.ExecutePreprocessor.timeout = CELL_SECONDS
    config.Autograde.exporter_class = OnlyInTheSandbox
