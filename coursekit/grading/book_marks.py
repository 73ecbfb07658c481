"""What nbgrader's gradebook says of what was handed in. It is the one truth, with manual points, extra credit and penalties."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)


@dataclass(frozen=True)
class Mark:
    """The points of one cell: `by_hand` where a person gave some of them, `waits` where a person is to look."""

    points: float
    possible: float
    by_hand: bool
    waits: bool


@dataclass
class Marks:
    """The marks of one notebook that was handed in, the comments on its answers, both by cell, and the penalty for being late."""

    cells: dict[str, Mark] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    penalty: float = 0.0
    handed_in: datetime | None = None  # in UTC
    due: datetime | None = None  # with the student's own extension

    @property
    def score(self) -> float:
        """Return the points of the notebook, never fewer than none, as nbgrader exports them."""
        return round(max(0.0, sum(mark.points for mark in self.cells.values()) - self.penalty), 6)

    @property
    def possible(self) -> float:
        """Return the points that the notebook is worth."""
        return sum(mark.possible for mark in self.cells.values())

    @property
    def to_grade(self) -> int:
        """Return how many cells wait for a person."""
        return sum(mark.waits for mark in self.cells.values())


def marks_of(gradebook: Gradebook, student: str = "", assignment: str = "") -> dict[str, Marks]:
    """Return all marks of a gradebook, or those of one student for one assignment, by the keys under which outcomes are kept."""
    chosen = [(Student.id, student), (Assignment.name, assignment)]
    where = [column == value for column, value in chosen if value]
    names = (Student.id, Assignment.name, Notebook.name)
    found: dict[str, Marks] = {}
    columns = (SubmittedNotebook.late_submission_penalty, SubmittedAssignment.timestamp)
    dates = (Assignment.duedate, SubmittedAssignment.extension)
    for *key, penalty, stamp, due, extension in _rows(gradebook, [*names, *columns, *dates], [], where):
        due = due + extension if due and extension else due
        found["/".join(key)] = Marks(penalty=penalty or 0.0, handed_in=stamp, due=due)
    hand = (Grade.manual_score, Grade.extra_credit, Grade.needs_manual_grade)
    graded = [*names, BaseCell.name, Grade.score, Grade.max_score, *hand]
    for *key, cell, points, possible, manual, extra, waits in _rows(
        gradebook, graded, [SubmittedNotebook.grades, Grade.cell], where
    ):
        by_hand = manual is not None or bool(extra)
        found["/".join(key)].cells[cell] = Mark(points, possible, by_hand, waits)
    said = [*names, BaseCell.name, Comment.comment]
    for *key, cell, comment in _rows(
        gradebook, said, [SubmittedNotebook.comments, Comment.cell], [*where, Comment.comment.is_not(None)]
    ):
        found["/".join(key)].comments[cell] = comment
    return found


def _rows(gradebook: Gradebook, columns: list[Any], more: list[Any], where: list[Any]) -> Iterable[Any]:
    """Return columns of all notebooks that were handed in, joined with what belongs to each."""
    query = gradebook.db.query(*columns).select_from(SubmittedNotebook)
    query = query.join(SubmittedNotebook.notebook).join(SubmittedNotebook.assignment)
    query = query.join(SubmittedAssignment.student).join(SubmittedAssignment.assignment)
    for other in more:
        query = query.join(other)
    rows: Iterable[Any] = query.filter(*where)
    return rows
