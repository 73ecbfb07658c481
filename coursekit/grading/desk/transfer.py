"""`coursekit grades`: the points of a class in the table that a platform exported, as a new file for it to import.

Canvas (lib/gradebook_importer.rb): the exported gradebook; a student is found by ID, an assignment by the "(12345)" behind its
title; below the header stands the row "Points Possible".
Moodle (mod/assign/feedback/offline): an assignment's grading worksheet; a student is found by "Participant 12345", the points
stand in "Grade", and what is above "Maximum Grade" is skipped without a word; "Feedback comments" takes HTML. Its gradebook's
export and import do as well.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coursekit.basics.cards import plural
from coursekit.basics.dates import in_words
from coursekit.basics.errors import CommandError
from coursekit.basics.tables import write_table
from coursekit.grading.class_run import Run
from coursekit.grading.class_settings import Student
from coursekit.grading.class_tables import MISSING, Office
from coursekit.grading.comments import as_html
from coursekit.grading.desk.people import People, Table
from coursekit.grading.student_page import number
from coursekit.grading.submission import text_of

COMMENTS = "Feedback comments"  # Moodle's name of the column
PLATFORMS = ("canvas", "moodle", "csv")


@dataclass
class Transfer:
    """The changes to a table, and what was left as it is, each with its reason."""

    table: Table
    changes: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{plural(len(self.changes), 'change')}{':' if self.changes else '.'}", *_indented(self.changes)]
        return "\n".join(lines + (["Left unchanged:", *_indented(self.left)] if self.left else []))


def transfer(
    office: Office, table: Table, platform: str, columns: Mapping[str, str], scale: bool = False, zeros: bool = False
) -> Transfer:
    """Fill the points of a class into a platform's table; raises CommandError where it does not fit.

    `columns` names the column of an assignment where it is not called like it. With `scale`, points are turned into the
    platform's; with `zeros`, who handed in nothing in time gets 0.
    """
    if table.is_canvas != (platform == "canvas"):
        not_canvas = "not a Canvas gradebook: it lacks the columns Student, ID, and Section"
        found = "Canvas' gradebook" if table.is_canvas else not_canvas
        raise CommandError(f"{table.path} is {found}. Give the table that {platform.title()} exported.")
    return _Filling(office, table, columns, scale, zeros).run()


class _Filling:
    def __init__(self, office: Office, table: Table, columns: Mapping[str, str], scale: bool, zeros: bool):
        self.office, self.table, self.scale, self.zeros = office, table, scale, zeros
        self.places = self._places(columns)
        comments = table.column(COMMENTS)
        self.comments = comments if len(self.places) == 1 else None  # one column is of one assignment
        self.commented = 0
        self.cells, self.waits = office.cells(), office.waits()
        self.people = people_of(office, table)
        self.result = Transfer(table)

    def run(self) -> Transfer:
        """Go through the rows of the table."""
        known = self.people.of_row
        for place, row in enumerate(self.table.rows[1:], 1):
            if place in known:
                self._row(row, known[place].id)
            elif self.table.number(row) or self.table.keys(row):
                name = text_of(self.table.name(row))
                self.result.left.append(
                    f"line {place + 1}, {name}: no student in the class matches, or more than one does"
                )
        for name in sorted(self.office.students() - {student.id for student in known.values()}):
            self.result.left.append(f"{name}: no line in the table is clearly theirs")
        if self.commented and self.comments is None:
            self.result.left.append(self._say_where_comments_go())
        return self.result

    def _row(self, row: list[str], student: str) -> None:
        for assignment, place in self.places.items():
            row.extend([""] * (place + 1 - len(row)))
            value = self.cells.get((student, assignment), MISSING)
            if value == MISSING and self.zeros:
                due = self.office.settings.to_come(student, assignment)
                value = f"{MISSING}, due {in_words(due)}" if due else 0
            elif value == MISSING and not self.office.settings.to_come(student, assignment):
                value = f"{MISSING} (--zeros gives 0)"
            if self.waits.get((student, assignment)):
                value = "an answer waits for a person"
            if isinstance(value, str):
                self.result.left.append(f"{student}: {assignment}: {value}")
                continue
            points = self._written(value, row, assignment)
            if _as_number(row[place]) != _as_number(points):
                self.result.changes.append(f"{student}: {assignment}: {row[place].strip() or 'empty'} → {points}")
                row[place] = points
            self._comment(row, student, assignment)

    def _comment(self, row: list[str], student: str, assignment: str) -> None:
        """Write the comments on a student's answers into Moodle's column."""
        said = self.office.comments(student, assignment)
        self.commented += bool(said)
        if not said or self.comments is None:
            return
        row.extend([""] * (self.comments + 1 - len(row)))
        text = "\n".join(f"<p><b>{html.escape(name)}</b></p>\n{as_html(comment)}" for name, comment in said)
        if row[self.comments] != text:
            instead = " instead of those in the table" if row[self.comments].strip() else ""
            self.result.changes.append(f"{student}: {assignment}: {plural(len(said), 'comment')}{instead}")
            row[self.comments] = text

    def _say_where_comments_go(self) -> str:
        about = f"the comments on {plural(self.commented, 'hand-in')}"
        if self.table.is_canvas:
            return f"{about}: Canvas' gradebook has no column for them; `coursekit give-back --to canvas` packs the pages, which include them"
        return (
            f"{about}: the table has no column {COMMENTS!r} of one assignment; switch the comments on in the assignment's "
            "settings, under feedback types, and export the grading worksheet again"
        )

    def _written(self, value: int | float, row: list[str], assignment: str) -> str:
        """Return points as the table writes them, in the platform's scale."""
        possible, worth = self._possible(row, assignment), self.office.worth_of(assignment)
        if possible is not None and possible != worth:
            if not self.scale or not worth:
                raise CommandError(
                    f"{self.table.path}: {assignment} is worth {possible:g} there and {worth:g} here. "
                    "Set the same maximum on the platform and export again, or add --scale."
                )
            value = number(round(value * possible / worth, 2))
        text = f"{value:g}" if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")
        return text.replace(".", ",") if self.table.decimal_comma else text

    def _possible(self, row: list[str], assignment: str) -> float | None:
        """Return what the platform says that an assignment is worth."""
        if not self.table.is_canvas:
            return _as_number(self.table.cell(row, "Maximum Grade"))
        return self._out_of(self.places[assignment])

    def _out_of(self, place: int) -> float | None:
        """Return what Canvas' gradebook says that a column is worth, None for one that holds no points."""
        line = next((each for each in self.table.rows[1:4] if each and "Points Possible" in each[0]), [])
        return _as_number(line[place]) if place < len(line) else None

    def _places(self, columns: Mapping[str, str]) -> dict[str, int]:
        """Return the column of each assignment; raises CommandError where there is none."""
        assignments, found = self.office.assignments(), dict[str, int]()
        for assignment in columns:
            if assignment not in assignments:
                raise CommandError(
                    f"The class has not had {assignment}. It has had {', '.join(assignments) or 'nothing'}."
                )
        for assignment in assignments:
            wanted = columns.get(assignment)
            if wanted is None:
                titles = [_title(each) for each in self.table.header]
                place = titles.index(assignment.casefold()) if assignment.casefold() in titles else None
            else:
                place = self.table.column(wanted)
                place = place if place is not None else _only(self.table.header, wanted)
                if place is None:
                    raise CommandError(f"{self.table.path} has no column {wanted}. {self._columns()}")
            if place is not None:
                found[assignment] = place
        grade = self.table.column("Grade")
        if not found and grade is not None and not self.table.is_canvas and len(assignments) == 1:
            return {assignments[0]: grade}
        if not found:
            raise CommandError(f"{self.table.path} has no column named after an assignment. {self._say_which(grade)}")
        return found

    def _say_which(self, grade: int | None) -> str:
        """Return how to name the column: a worksheet of Moodle is of one assignment and has one, Grade."""
        assignments = self.office.assignments() or ["ch01_tasks"]
        if grade is not None and not self.table.is_canvas:
            return f'Say which assignment it is for: --column "{assignments[-1]}=Grade" (there are {", ".join(assignments)}).'
        return f'Say which column it is: --column "{assignments[0]}=Homework 1". {self._columns()}'

    def _columns(self) -> str:
        titles = list(enumerate(self.table.header))
        graded = [each for place, each in titles if self.table.is_canvas and self._out_of(place) is not None]
        return f"Its columns are: {', '.join(graded or [each for _, each in titles if each])}."


def grades_to(
    course: Path,
    platform: str,
    table: Path | None,
    columns: Sequence[str],
    scale: bool,
    zeros: bool,
    dry_run: bool,
    out: Path | None,
) -> str:
    """Return what `coursekit grades` says after it has written its file; raises CommandError."""
    if platform not in PLATFORMS:
        raise CommandError(f"--to {platform} is unknown. Choose one of {', '.join(PLATFORMS)}.")
    if table is None and platform != "csv":
        what = "the gradebook from Canvas (Grades, Export)" if platform == "canvas" else "the worksheet from Moodle"
        raise CommandError(f"--to {platform} fills in a table that you export there: {what}. Pass it with --table.")
    office = Run.of(course).office()
    if table is None or platform == "csv":
        path = out or course / "final.csv"
        rows = office.final()
        if not dry_run:
            write_table(path, rows)
        return "\n".join(", ".join(map(str, row)) for row in rows) if dry_run else f"wrote {path}"
    pairs = [text.partition("=") for text in columns]
    for text, (_, sign, title) in zip(columns, pairs, strict=True):
        if not sign or not title:
            raise CommandError(f'--column {text!r} names no column. Write --column "ch01_tasks=Homework 1".')
    filled = Table(table)
    result = transfer(office, filled, platform, {name.strip(): title for name, _, title in pairs}, scale, zeros)
    path = out or table.with_stem(f"{table.stem}-to-import")
    if dry_run:
        return f"{result}\nNothing was written (--dry-run)."
    write_table(path, filled.rows, filled.separator, filled.encoding)
    return f"{result}\nwrote {path}: import it into {platform.title()}."


def people_of(office: Office, table: Table) -> People:
    """Return whom the rows of a table can be: the roster, else the folders of submitted/ by the words that `collect` made them of."""
    if office.settings.students:
        return People(office.settings.students, table)
    parts = [(name, *re.fullmatch(r"(.*?)(?:_(\d+))?", name, re.DOTALL).groups()) for name in office.students()]  # type: ignore[union-attr]
    return People([Student(name, words, canvas=digits or "") for name, words, digits in parts], table, numbered=True)


def _title(column: str) -> str:
    """Return the assignment's name in a column's header: `Assignment: Homework 1 (Real)`, `Homework 1 (12345)`."""
    return re.sub(r"\s*\([^()]*\)$", "", column.strip()).rpartition(": ")[2].casefold()


def _only(header: list[str], wanted: str) -> int | None:
    places = [place for place, column in enumerate(header) if _title(column) == wanted.strip().casefold()]
    return places[0] if len(places) == 1 else None


def _as_number(text: str) -> float | None:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
