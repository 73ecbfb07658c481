"""The class in tables: a row for each student and assignment, and one final table of students and assignments."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coursekit.basics.dates import in_words
from coursekit.grading.book_marks import Marks
from coursekit.grading.class_settings import Settings, Student
from coursekit.grading.gradebook import NO_RESPONSE
from coursekit.grading.grading_plan import Master, points_of
from coursekit.grading.student_page import number
from coursekit.grading.submission import Submission

MISSING, WAITING = "missing", "not graded yet"


@dataclass(frozen=True)
class Office:
    """One class's outcomes beside its roster: `lines` are those of results.jsonl that count, `handed_in` what lies in submitted/."""

    settings: Settings
    masters: Mapping[tuple[str, str], Master]
    lines: Collection[dict]
    marks: Mapping[str, Marks]
    handed_in: Collection[Submission] = field(default_factory=list)

    def assignments(self) -> list[str]:
        """Return the assignments that the class has had: with a date in class.toml, or with at least one hand-in."""
        known = {assignment for (assignment, _), master in self.masters.items() if master.is_graded()}
        seen = {line["assignment"] for line in self.lines} | {item.assignment for item in self.handed_in}
        return sorted((seen | set(self.settings.due)) & known)

    def rows(self) -> list[dict]:
        """Return the lines, and one for each notebook that a student of the roster has not handed in, or that waits to be graded."""
        there = {line["key"] for line in self.lines}
        waiting = {item.key for item in self.handed_in}
        rows = [*self.lines]
        for student in self.settings.students:
            for assignment, notebook in self._notebooks():
                key = f"{student.id}/{assignment}/{notebook}"
                if key not in there:
                    rows.append(self._row(key, WAITING if key in waiting else MISSING))
        return rows

    def _notebooks(self) -> list[tuple[str, str]]:
        had = set(self.assignments())
        return sorted(key for key, master in self.masters.items() if key[0] in had and master.is_graded())

    def _row(self, key: str, outcome: str) -> dict:
        student, assignment, notebook = key.split("/")
        due = self.settings.to_come(student, assignment)
        return {
            "key": key,
            "student": student,
            "assignment": assignment,
            "notebook": notebook,
            "outcome": outcome,
            "score": 0,
            "max_score": self.worth(assignment, notebook),
            "reason": (f"due {in_words(due)}" if due else "nothing was handed in") if outcome == MISSING else "",
            "seconds": 0,
        }

    def worth(self, assignment: str, notebook: str) -> int | float:
        """Return the points that a notebook can earn, those that a person gives included."""
        master = self.masters[assignment, notebook]
        cells = [*master.tests().values(), *master.others().values()]
        return number(sum(points_of(cell) for cell in cells))

    def final(self) -> list[list[object]]:
        """Return the final table: a row for each student, a column for each assignment, the sum and what it is out of."""
        assignments = self.assignments()
        possible = number(sum(self.worth(*key) for key in self._notebooks()))
        known = {student.id: student for student in self.settings.students}
        cells, waits = self.cells(), Counter[str]()
        for (student, _), count in self.waits().items():
            waits[student] += count
        rows: list[list[object]] = [
            ["student", "name", "email", "group", *assignments, "total", "of", "to_grade"],
        ]
        for name in sorted(self.students()):
            about = known.get(name, Student(name))
            its = [cells.get((name, assignment), MISSING) for assignment in assignments]
            total = number(sum(cell for cell in its if isinstance(cell, int | float)))
            rows.append([name, about.name, about.email, about.group, *its, total, possible, waits[name]])
        return rows

    def students(self) -> set[str]:
        """Return the roster, and those others who handed in."""
        others = {item.student for item in self.handed_in} | {line["student"] for line in self.lines}
        return {student.id for student in self.settings.students} | others - {""}

    def waits(self) -> dict[tuple[str, str], int]:
        """Return by student and assignment how many answers wait for a person."""
        found = Counter[tuple[str, str]]()
        for key, marks in self.marks.items():
            student, assignment, _ = key.split("/")
            found[student, assignment] += marks.to_grade
        return found

    def comments(self, student: str, assignment: str) -> list[tuple[str, str]]:
        """Return the comments on a student's answers, in the order of the notebooks: the answer's name, the comment."""
        found = list[tuple[str, str]]()
        for _, notebook in (key for key in self._notebooks() if key[0] == assignment):
            marks = self.marks.get(f"{student}/{assignment}/{notebook}", Marks())
            names = (name for name in self.masters[assignment, notebook].others() if name in marks.comments)
            found += [(name.removeprefix("answer_"), marks.comments[name]) for name in names]
        return [(name, comment) for name, comment in found if comment != NO_RESPONSE]

    def worth_of(self, assignment: str) -> int | float:
        """Return the points that an assignment can earn."""
        return number(sum(self.worth(*key) for key in self._notebooks() if key[0] == assignment))

    def cells(self) -> dict[tuple[str, str], int | float | str]:
        """Return by student and assignment the points less penalties, or why there are none yet."""
        found: dict[tuple[str, str], int | float | str] = {}
        for item in self.handed_in:
            found.setdefault((item.student, item.assignment), MISSING)
            if item.instead or not item.problem:
                found[item.student, item.assignment] = WAITING
        for line in self.lines:
            place = line["student"], line["assignment"]
            if line["outcome"] == "graded":
                marks = self.marks.get(line["key"])
                before = found.get(place)
                score = marks.score if marks else float(line["score"])
                found[place] = number(score + (before if isinstance(before, int | float) else 0))
            elif found.get(place) == WAITING:
                found[place] = line["outcome"]
        return found
