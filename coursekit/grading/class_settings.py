"""What `class.toml` in a course's folder says of a class: who is in it, what is due when, what counts, which help is open."""

import csv
import difflib
import io
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from coursekit.basics.dates import in_words
from coursekit.basics.errors import CommandError, chapter_names
from coursekit.basics.translations import SOURCE, languages
from coursekit.grading.submission import text_of

FILE = "class.toml"
HELP = ("hints", "puzzles", "solutions")
NAME_CHARACTERS = 128  # of a student's id, in nbgrader's gradebook


@dataclass(frozen=True)
class Student:
    """One line of the roster; `id` names the folder in submitted/, `canvas` is the number in the column ID of Canvas."""

    id: str
    name: str = ""
    email: str = ""
    group: str = ""
    canvas: str = ""


@dataclass(frozen=True)
class Late:
    """What lateness costs: nothing for some hours, then a fraction of the score for each day begun, all of it after some days."""

    percent_a_day: float
    grace_hours: float = 0
    days: int | None = None


@dataclass(frozen=True)
class Settings:
    """A class; every date knows its zone."""

    file: Path
    zone: ZoneInfo | None = None
    quizzes: bool = False
    help: frozenset[str] = frozenset(HELP)
    students: tuple[Student, ...] = ()
    due: dict[str, datetime] = field(default_factory=dict)
    extensions: dict[tuple[str, str], datetime] = field(default_factory=dict)  # by student and assignment
    late: Late | None = None
    language: str = SOURCE  # of the pages for the instructor and for the students

    @property
    def is_there(self) -> bool:
        """Return whether the course has a class.toml."""
        return self.file.exists()

    def to_come(self, student: str, assignment: str) -> datetime | None:
        """Return the date until which a student may still hand in, None where it is past, or where there is none."""
        due = self.extensions.get((student, assignment)) or self.due.get(assignment)
        return due if due and due > datetime.now(UTC) else None


def settings_of(course: Path, assignments: Collection[str] = ()) -> Settings:
    """Return what a course's class.toml says, the defaults where there is none; raises CommandError that names the bad entry.

    `assignments` are those that it may name, the chapters of this project where none are given.
    """
    file = course / FILE
    if not file.exists():
        return Settings(file)
    return _Reader(file, assignments or chapter_names()).settings(_content(file))


def roster_of(course: Path) -> tuple[Student, ...]:
    """Return the students of a course's class.toml, whatever its assignments are; raises CommandError as `settings_of` does."""
    file = course / FILE
    return _Reader(file, ()).students(_content(file).get("students", [])) if file.exists() else ()


def _content(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:  # of TOML or of the encoding
        raise CommandError(f"{file} cannot be read: {error}. Fix it, then run the same command again.") from None


class _Reader:
    """Reads the entries of one file; each error says which entry, why, and what it could be."""

    def __init__(self, file: Path, assignments: Collection[str]):
        self.file, self.assignments = file, assignments
        self.zone: ZoneInfo | None = None

    def bad(self, entry: str, reason: str) -> CommandError:
        return CommandError(f"{self.file}: {entry}: {reason}")

    def settings(self, content: dict[str, Any]) -> Settings:
        self.known("", content, [each.name for each in fields(Settings) if each.name != "file"])
        self.zone = self.zone_of(content)
        students = self.students(content.get("students", []))
        due = {name: self.moment(f"due.{name}", value) for name, value in self.table(content, "due").items()}
        for name in due:
            self.one_of(f"due.{name}", name, self.assignments, "assignment")
        return Settings(
            self.file,
            self.zone,
            self.value(content, "quizzes", bool, False),
            self.help(content),
            students,
            due,
            self.extensions(content, due, {student.id for student in students}),
            self.late(self.table(content, "late")) if "late" in content else None,
            self.language(content),
        )

    def language(self, content: dict[str, Any]) -> str:
        name: str = self.value(content, "language", str, SOURCE)
        self.one_of("language", name, [SOURCE, *languages()], "translation into")
        return name

    def zone_of(self, content: dict[str, Any]) -> ZoneInfo | None:
        name = self.value(content, "zone", str, "")
        try:
            return ZoneInfo(name) if name else None
        except (KeyError, ValueError, OSError):  # the first is ZoneInfoNotFoundError
            raise self.bad("zone", f'there is no zone {name!r}. Write a name such as "Europe/Berlin".') from None

    def help(self, content: dict[str, Any]) -> frozenset[str]:
        names = self.value(content, "help", list, list(HELP))
        for name in names:
            self.one_of("help", name, HELP, "help")
        return frozenset(names)

    def extensions(self, content: dict[str, Any], due: dict[str, datetime], ids: Collection[str]) -> dict:
        found: dict[tuple[str, str], datetime] = {}
        for student, dates in self.table(content, "extensions").items():
            entry = f"extensions.{student}"
            if ids:
                self.one_of(entry, student, ids, "student")
            if not isinstance(dates, dict):
                raise self.bad(entry, f"write a table: [extensions.{student}], and below it ch01_tasks = 2026-10-22")
            for name, value in dates.items():
                self.one_of(f"{entry}.{name}", name, due, "assignment with a due date")
                found[student, name] = self.moment(f"{entry}.{name}", value)
                if found[student, name] < due[name]:
                    raise self.bad(f"{entry}.{name}", f"it is before the due date of the class, {in_words(due[name])}")
        return found

    def late(self, table: dict[str, Any]) -> Late:
        self.known("late.", table, [each.name for each in fields(Late)])
        if "percent_a_day" not in table:
            raise self.bad("late", "percent_a_day is missing, for example percent_a_day = 10")
        for name, value in table.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10_000:
                raise self.bad(f"late.{name}", f"{value!r} is not a number from 0 to 10,000")
            if name == "days" and not isinstance(value, int):
                raise self.bad("late.days", f"{value!r} is not a whole number")
        return Late(**table)

    def students(self, value: Any) -> tuple[Student, ...]:
        """Return the roster: tables in this file, or the rows of a CSV file beside it."""
        if isinstance(value, str):
            rows = self.rows(value)
        elif not isinstance(value, list):
            raise self.bad(
                "students", 'write the name of a CSV file, "roster.csv", or one [[students]] for each student'
            )
        else:
            rows = [(f"students, number {number}", row) for number, row in enumerate(value, 1)]
        found: dict[str, Student] = {}
        emails: dict[str, str] = {}
        for entry, row in rows:
            student = self.student(entry, row)
            for taken, key in ((found, student.id.casefold()), (emails, student.email.casefold())):
                if key in taken:
                    raise self.bad(entry, f"{key} is in the roster twice. Give each student one line.")
            found[student.id.casefold()] = student
            if student.email:
                emails[student.email.casefold()] = student.id
        return tuple(found.values())

    def rows(self, name: str) -> list[tuple[str, Any]]:
        try:
            text = (self.file.parent / name).read_text(encoding="utf-8-sig")
            separator = max(",;\t", key=text.partition("\n")[0].count)
            table = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))
        except (OSError, ValueError, csv.Error) as error:
            raise self.bad("students", f"{name} cannot be read ({error})") from None
        if not all("id" in row for row in table[:1]):
            raise self.bad("students", f"{name} has no column id. Its first line is: id,name,email,group")
        columns = [each.name for each in fields(Student)]
        return [
            (f"{name}, line {number}", {key: row.get(key) or "" for key in columns})
            for number, row in enumerate(table, 2)
        ]

    def student(self, entry: str, row: Any) -> Student:
        if not isinstance(row, dict) or not row.get("id"):
            raise self.bad(entry, 'it has no id. Write [[students]] and below it id = "ada"')
        columns = [each.name for each in fields(Student)]
        self.known(f"{entry}: ", row, columns)
        for name, value in row.items():
            if not isinstance(value, str):
                raise self.bad(entry, f'{name} must be text: write it in quotes, {name} = "{value}"')
        student = Student(**{name: value.strip() for name, value in row.items()})
        if reason := unfit(student.id):
            raise self.bad(entry, f"the id {student.id!r} {reason}")
        return student

    def moment(self, entry: str, value: Any) -> datetime:
        """Return a date with its zone; a day alone means its last second."""
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time(23, 59, 59))
        if not isinstance(value, datetime):
            raise self.bad(entry, f"{value!r} is not a date. Write 2026-10-19, or 2026-10-19T18:00:00, without quotes.")
        if value.tzinfo is None and self.zone is None:
            raise self.bad(entry, 'the date has no zone. Write zone = "Europe/Berlin" in the first line of the file.')
        if not 2000 <= value.year < 9000:
            raise self.bad(entry, f"no class can meet in the year {value.year}")
        return value if value.tzinfo else value.replace(tzinfo=self.zone)

    def value(self, table: dict[str, Any], name: str, kind: type, default: Any) -> Any:
        value = table.get(name, default)
        if not isinstance(value, kind):
            words = {bool: "true or false", str: "text in quotes", list: 'a list, such as ["hints"]'}
            raise self.bad(name, f"{value!r} is not {words[kind]}")
        return value

    def table(self, content: dict[str, Any], name: str) -> dict[str, Any]:
        value = content.get(name, {})
        if not isinstance(value, dict):
            raise self.bad(name, f"it must be a table: write [{name}] on its own line, with its entries below")
        return value

    def known(self, prefix: str, table: dict[str, Any], names: Collection[str]) -> None:
        for name in table:
            self.one_of(f"{prefix}{name}", name, names, "entry")

    def one_of(self, entry: str, name: Any, names: Collection[str], kind: str) -> None:
        if name not in names:
            near = difflib.get_close_matches(str(name), list(names), n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(names)) or 'none'}."
            raise self.bad(entry, f"there is no {kind} {name!r}. {hint}")


def unfit(name: str) -> str:
    """Return why a name can be no student's folder and no id in the gradebook, "" where it can."""
    if name in ("", ".", "..") or name.startswith((".", "__")) or "/" in name or "\\" in name or text_of(name) != name:
        return "cannot be a folder's name"
    return f"has more than {NAME_CHARACTERS} characters" if len(name) > NAME_CHARACTERS else ""
