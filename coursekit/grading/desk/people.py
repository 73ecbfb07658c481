"""Whose hand-in it is, and whose row of a table: the platform's words compared with the roster of class.toml."""

import codecs
import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from coursekit.basics.errors import CommandError
from coursekit.grading.class_settings import Student, unfit
from coursekit.grading.desk.arrivals import Label
from coursekit.grading.submission import NotGradable, text_of


class Table:
    """A table that a platform exported: Moodle's grading worksheet or gradebook, Canvas' gradebook, whatever has a header."""

    def __init__(self, path: Path):
        self.path = path
        try:
            content = path.read_bytes()
            text = content.decode("utf-8-sig")
            self.separator = max(",;\t", key=text.partition("\n")[0].count)
            csv.field_size_limit(2**31 - 1)  # Moodle's column of online texts
            self.rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=self.separator))
        except (OSError, ValueError, csv.Error) as error:
            raise CommandError(f"{path} cannot be read ({error}). Export it as CSV in UTF-8.") from None
        if len(self.rows) < 2:
            raise CommandError(f"{path} has no rows. Export it as CSV, with its header.")
        self.encoding = "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"
        self.header = [cell.strip() for cell in self.rows[0]]

    @property
    def decimal_comma(self) -> bool:
        """Return whether the table writes 2,5 for two and a half."""
        return self.separator == ";" or any(re.fullmatch(r"\d+,\d+", cell) for row in self.rows for cell in row)

    def column(self, *names: str) -> int | None:
        """Return the place of the first of these columns that the table has; letter case does not count."""
        places = {name.casefold(): place for place, name in reversed(list(enumerate(self.header)))}
        return next((places[name.casefold()] for name in names if name.casefold() in places), None)

    def cell(self, row: list[str], *names: str) -> str:
        """Return what a row has in the first of these columns that the table has, "" where it has none."""
        place = self.column(*names)
        return row[place].strip() if place is not None and place < len(row) else ""

    @property
    def is_canvas(self) -> bool:
        """Return whether it is Canvas' gradebook (lib/gradebook_importer.rb wants these three)."""
        return None not in (self.column("Student", "LastName"), self.column("ID"), self.column("Section"))

    def number(self, row: list[str]) -> str:
        """Return the platform's number for a student: Canvas' ID, or the digits of Moodle's "Participant 12345", whatever the language."""
        last = re.search(r"\d+$", self.cell(row, "ID") if self.is_canvas else _at(row, 0))
        return last[0] if last else ""

    def place_of(self, number: str) -> int:
        """Return the place of the row with a platform's number, 0 for none."""
        rows = enumerate(self.rows[1:], 1)
        return next((place for place, row in rows if number and self.number(row) == number), 0)

    def keys(self, row: list[str]) -> set[str]:
        """Return what a row says of its student's id and e-mail: never what stands in a column of points or remarks."""
        named = ["SIS User ID", "SIS Login ID", "Integration ID", "ID number", "Username", "Email address", "Email"]
        cells = {self.cell(row, name) for name in named}
        if not self.is_canvas:  # in another language than English
            cells |= {_at(row, 2)} | {cell.strip() for cell in row[:6] if "@" in cell}
        return {cell.casefold() for cell in cells if cell}

    def name(self, row: list[str]) -> str:
        """Return the name of a row's student, in whatever order it has."""
        both = f"{self.cell(row, 'First name', 'FirstName')} {self.cell(row, 'Last name', 'LastName', 'Surname')}"
        return self.cell(row, "Student", "Full name", "Name") or both.strip() or ("" if self.is_canvas else _at(row, 1))


class People:
    """The students of a class; without a roster, those whom the platform names.

    A name is what a student may change on the platform, so it is believed only where nothing else says who it is, and where one
    account alone has it. `numbered` says that the platform's numbers in the roster are of any platform, not of Canvas alone.
    """

    def __init__(self, roster: Collection[Student], table: Table | None = None, numbered: bool = False):
        self.roster, self.table, self.numbered = roster, table, numbered
        self.of_row = self._rows()

    def _rows(self) -> dict[int, Student]:
        """Return the student of each row of the table: by number, id or e-mail, else by a name that no other student has."""
        rows = list(enumerate(self.table.rows[1:], 1)) if self.table else []
        sure = _once({place: self._by_key(row) for place, row in rows})
        left = [student for student in self.roster if student not in sure.values()]
        names = {place: self._by_name(row, left) for place, row in rows if place not in sure}
        return sure | _once(names)

    def _by_key(self, row: list[str]) -> list[Student]:
        assert self.table
        if self.table.is_canvas or self.numbered:
            number = self.table.number(row)
            if found := [student for student in self.roster if number and student.canvas == number]:
                return found
        keys = self.table.keys(row)
        return [student for student in self.roster if _keys(student) & keys]

    def _by_name(self, row: list[str], students: Collection[Student]) -> list[Student]:
        assert self.table
        name = self.table.name(row)
        return [student for student in students if same_name(student.name, name)]

    def who(self, label: Label, layout: str, everybody: Iterable[Label]) -> list[str]:
        """Return the students whose a label is, more than one for a team; raises NotGradable with the reason where it is no student's."""
        place = self.table.place_of(label.number) if self.table else 0
        same = {other.number for other in everybody if (other.name, other.above) == (label.name, label.above)}
        if self.roster:
            known = self.of_row.get(place)
            return [known.id] if known else [student.id for student in self._in_roster(label, layout, len(same))]
        if place and self.table:
            row = self.table.rows[place]
            email = next((cell.strip() for cell in row if "@" in cell), "")
            name = self.table.cell(row, "SIS Login ID", "ID number", "Username") or email or label.name
        elif layout == "canvas":
            name = f"{label.name}_{label.number}"
        else:
            name = label.name if len(same) == 1 else f"{label.name}_{label.number}"
        if reason := unfit(text_of(name)):
            raise NotGradable(f"the student's name {text_of(name)!r} {reason}")
        return [text_of(name)]

    def _in_roster(self, label: Label, layout: str, accounts: int) -> list[Student]:
        numbered = [student for student in self.roster if layout == "canvas" and student.canvas]
        if own := [student for student in numbered if student.canvas == label.number]:
            return own
        others = [student for student in self.roster if student not in numbered]
        own = [student for student in others if layout == "folder" and label.name.casefold() in _keys(student)]
        own = own or [student for student in others if same_name(student.name, label.name)]
        team = [student for student in others if student.group and same_name(student.group, label.name)]
        called = f"called {text_of(label.name)}"
        if len(own) > 1 or (own and accounts > 1):
            field = (
                "the column canvas of the roster" if layout == "canvas" else "--table and Moodle's grading worksheet"
            )
            raise NotGradable(f"{max(len(own), accounts)} students are {called}: tell them apart with {field}")
        if not own and not team and accounts > 1:
            raise NotGradable(
                f"{accounts} students are {called}, and none on the roster: if the platform hides "
                "names in this assignment, reveal them there and download again"
            )
        if not own and not team:
            number = f" with the number {label.number}" if numbered else ""
            raise NotGradable(f"no student on the roster is {called}{number}")
        return own or team


def _once(found: Mapping[int, list[Student]]) -> dict[int, Student]:
    """Return the rows that are one student's, without students who would have two."""
    single = {place: students[0] for place, students in found.items() if len(students) == 1}
    counts = Counter(student.id for student in single.values())
    return {place: student for place, student in single.items() if counts[student.id] == 1}


def same_name(one: str, other: str) -> bool:
    """Return whether two spellings are of one name: in any order, with or without accents, or all in one word as in Canvas."""
    words, others = _words(one), _words(other)
    if not words or not others:
        return False
    return Counter(words) == Counter(others) or _in_one_word(words, others) or _in_one_word(others, words)


def _in_one_word(words: list[str], others: list[str]) -> bool:
    """Return whether one spelling is the other's words in one, from whichever on: `lovelaceada`."""
    turned = ("".join(words[number:] + words[:number]) for number in range(len(words)))
    return len(others) == 1 and others[0] in turned


def _words(name: str) -> list[str]:
    letters = (each for each in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(each))
    return "".join(each if each.isalnum() else " " if each in " ,\t_" else "" for each in letters).split()


def _keys(student: Student) -> set[str]:
    return {key.casefold() for key in (student.id, student.email) if key}


def _at(row: list[str], place: int) -> str:
    return row[place].strip() if place < len(row) else ""
