"""`coursekit collect`: sorts what Moodle or Canvas packed into submitted/<student>/<assignment>/, by what each notebook is."""

import contextlib
import os
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError
from coursekit.grading.course_folders import refuse_inside
from coursekit.grading.desk.arrivals import (
    MAX_STUDENT,
    Arrival,
    Label,
    arrivals,
    dates_mean_something,
    is_improbable,
    is_notebook,
    labels,
    too_large,
)
from coursekit.grading.desk.participants import Participant, remember
from coursekit.grading.desk.people import People, Table
from coursekit.grading.desk.platform_times import PlatformTimes, Said
from coursekit.grading.desk.recognize import Known, ids_of, known_notebooks, unreadable_one, which
from coursekit.grading.file_kinds import is_a_notebooks, kind_of
from coursekit.grading.hand_in_time import FORMAT, advice, example, hand_in_time
from coursekit.grading.nbgrader_settings import Course
from coursekit.grading.submission import STAMP, NotGradable, chapter_of, read, text_of

NO_NOTEBOOK = "it is not a notebook"
ENCODING = (
    "The zip was probably written in another encoding, and whose file it is may be wrong: unpack it with another program, look "
    "at the name, and collect the folder."
)
_COPY = re.compile(r"\((\d+)\)$|-(\d+)$")


@dataclass
class Collected:
    """What came of a zip: where each notebook went, and what was left aside, with the reason."""

    layout: str
    placed: list[str] = field(default_factory=list)  # places in submitted/
    known: list[str] = field(default_factory=list)  # places where the same notebook was already
    next: str = ""  # the next command
    left: list[tuple[str, str]] = field(default_factory=list)  # the file in the zip, the reason
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # the same of what was placed, and cannot be graded
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # students of the roster

    def __str__(self) -> str:
        counts = Counter(place.split("/")[1] for place in self.placed)
        each = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
        lines = [f"New in submitted/: {each or 'nothing'}.", *self.notes]
        if self.known:
            lines.append(f"Unchanged, and placed before: {plural(len(self.known), 'notebook')}.")
        if self.unreadable:
            lines.append(
                "Not gradable (`coursekit grade` writes a page for each of these students that says why, and what to do):"
            )
            lines += [f"  {path}: {reason}" for path, reason in self.unreadable]
        if self.left:
            lines += ["Left aside:", *(f"  {path}: {reason}" for path, reason in self.left)]
        if self.missing:
            lines.append(f"No hand-in from {plural(len(self.missing), 'student')}: {', '.join(self.missing)}")
        if self.placed:
            lines.append(f"Next: {self.next}")
        return "\n".join(lines)


class Unreadable(NotGradable):
    """A notebook that cannot be read: of which assignment it is has to be told otherwise."""


@dataclass(frozen=True)
class _Notebook:
    """A notebook that was handed in, as far as it can be read."""

    arrival: Arrival
    label: Label
    known: Known
    answered: bool
    content: bytes

    def rank(self, dated: bool) -> tuple:
        """Return what makes it count before another of the same student and assignment: answered, newer."""
        copy = _COPY.search(self.label.file.stem)
        number = int(copy[1] or copy[2]) if copy and len(copy[0]) < 8 else 0
        when = self.arrival.when.timestamp() if dated and self.arrival.when else 0.0
        return self.answered, when, self.label.upload, is_notebook(self.arrival.path), number, str(self.arrival.path)


def collect(source: Path, course: Path, table: Path | None = None) -> Collected:
    """Put what a platform packed into a course's submitted/; raises CommandError where zip or course is missing."""
    if not source.exists():
        raise CommandError(
            f"There is no {source}. Give the zip, or the folder, that you downloaded from Moodle or Canvas."
        )
    if not course.is_dir():
        raise CommandError(f"There is no folder {course}. Create the course with: coursekit release {course}")
    refuse_inside(course.resolve() / "submitted")
    known, exported = Course(course.resolve()), Table(table) if table else None
    with (
        arrivals(source, known.settings.zone) as found,
        tempfile.TemporaryDirectory(dir=course, prefix=".collect-") as desk,
    ):
        result = _Collecting(found, known, exported, Path(desk)).run()
    result.next = f"coursekit grade {course / 'submitted'}"
    return result


class _Collecting:
    """One zip on its way into one course; `desk` is a folder for what is not finished."""

    def __init__(self, found: list[Arrival], course: Course, table: Table | None, desk: Path):
        self.found, self.course, self.table, self.desk = found, course.folder, table, desk
        layout, self.labels = labels(found)
        self.result = Collected(layout)
        self.people = People(course.settings.students, table)
        self.known = known_notebooks(course)
        self.participants: dict[str, Participant] = {}
        self.dated = layout != "canvas" and dates_mean_something(found)
        self.times = PlatformTimes(layout, table, self.dated, course.settings)
        # how many notebooks of which assignment came in which download, and who handed in what cannot be read
        self.counts: dict[PurePosixPath, Counter[str]] = defaultdict(Counter)
        self.not_read: dict[str, dict[Arrival, str]] = defaultdict(dict)

    def run(self) -> Collected:
        """Go through the students; a problem with one never affects another."""
        students = self._by_student()
        for student, arrived in sorted(students.items()):
            with self._written(arrived):
                self._student(student, arrived)
        for student in sorted(self.not_read):
            with self._written(students[student]):
                self._place_unreadable(student, self.not_read[student])
        if self.participants:
            remember(self.course, self.participants)
        self.result.missing = [student.id for student in self.people.roster if student.id not in students]
        self.result.notes += self.times.notes()
        names = {part for each in self.found for part in each.path.parts if is_improbable(part)}
        self.result.notes += [
            f"{text_of(name)!r} has characters that no name has. {ENCODING}" for name in sorted(names)
        ]
        self.result.left = sorted(set(self.result.left))
        return self.result

    @contextlib.contextmanager
    def _written(self, arrived: list[Arrival]) -> Iterator[None]:
        """Leave aside what cannot be written: a path that is too long, for example."""
        try:
            yield
        except OSError as error:
            self._leave(arrived, f"it cannot be written ({error.strerror})")

    def _leave(self, arrived: list[Arrival], reason: str) -> None:
        self.result.left += [(text_of(str(each.path)), reason) for each in arrived]

    def _by_student(self) -> dict[str, list[Arrival]]:
        students: dict[str, list[Arrival]] = {}
        for each in self.found:
            label = self.labels.get(each)
            try:
                if each.problem or not label:
                    raise NotGradable(each.problem or "neither its name nor its folder's says whose it is")
                for student in self.people.who(label, self.result.layout, self.labels.values()):
                    students.setdefault(student, []).append(each)
            except NotGradable as reason:
                self._leave([each], str(reason))
        return students

    def _student(self, student: str, arrived: list[Arrival]) -> None:
        """Place the notebooks of one student, with the files that lie beside them."""
        notebooks: dict[tuple[str, str], list[_Notebook]] = {}
        left, files = MAX_STUDENT, list[tuple[Arrival, bytes]]()
        for each in arrived:
            try:
                content = each.read() if left > 0 else b""
                left -= len(content)
                if left <= 0:
                    raise NotGradable(f"{student} handed in more than {MAX_STUDENT // 2**20} MB")
                if not is_notebook(each.path) and (reason := too_large(content)):
                    raise NotGradable(reason)
                if is_notebook(each.path) or is_a_notebooks(content):
                    notebook = self._read(each, content)
                    notebooks.setdefault((notebook.known.assignment, notebook.known.name), []).append(notebook)
                    if not is_notebook(each.path):
                        self.result.notes.append(f"{text_of(str(each.path))} is a notebook, whatever its name says.")
                else:
                    files.append((each, content))
            except Unreadable as reason:
                self.not_read[student][each] = str(reason)
            except NotGradable as reason:
                self._leave([each], str(reason))
        chosen = [self._choose(several) for several in notebooks.values()]
        for assignment in sorted({notebook.known.assignment for notebook in chosen}):
            its = [notebook for notebook in chosen if notebook.known.assignment == assignment]
            self.counts[its[0].label.above][assignment] += 1
            files = self._place(student, assignment, its, files)
        rest = [each for each, _ in files]
        if not chosen and not self.not_read[student]:
            self.not_read[student] = {each: NO_NOTEBOOK for each in rest if not _is_odd([self.labels[each].file.name])}
        self._leave(
            [each for each in rest if each not in self.not_read[student]],
            "it is not a notebook, and there is no notebook beside it, or there are notebooks of several assignments",
        )

    def _read(self, arrival: Arrival, content: bytes) -> _Notebook:
        path = self.desk / "notebook.ipynb"
        path.write_bytes(content)
        try:
            notebook = read(path)
        except NotGradable as reason:
            raise Unreadable(str(reason)) from None
        known = which(self.known, chapter_of(notebook), ids_of(content))
        code = {cell.source.strip() for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()}
        return _Notebook(arrival, self.labels[arrival], known, not code <= known.handed_out, content)

    def _place_unreadable(self, student: str, arrived: dict[Arrival, str]) -> None:
        """Place what a student handed in and nobody can read, so that it is graded as what it is, and not as nothing."""
        notebooks: dict[Known, list[_Notebook]] = defaultdict(list)
        files: dict[str, list[tuple[Arrival, bytes]]] = defaultdict(list)
        for each, reason in arrived.items():
            label, content = self.labels[each], each.read()
            known = unreadable_one(self.known, content, self._usual(label), label.file.name)
            if not known:
                self._leave([each], f"{reason}, and nothing says which assignment it belongs to")
            elif self._is_readable(student, known):
                self._leave([each], f"{reason}; the notebook of {student} that can be read counts")
            elif reason == NO_NOTEBOOK:
                files[known.assignment].append((each, content))
                arrived[each] = f"it is {kind_of(content)}" if kind_of(content) else NO_NOTEBOOK
            else:
                notebooks[known].append(_Notebook(each, label, known, False, content))
        chosen = [self._choose(several) for several in notebooks.values()]
        for best in chosen:
            self._place(student, best.known.assignment, [best], [])
        for assignment, its in files.items():
            self._place(student, assignment, [], its)
        placed = [best.arrival for best in chosen] + [each for its in files.values() for each, _ in its]
        self.result.unreadable += [(text_of(str(each.path)), arrived[each]) for each in placed]

    def _usual(self, label: Label) -> str:
        """Return the assignment of most of a download, of all of it in a folder of the instructor's own; "" for none."""
        counts = self.counts[label.above]
        least = counts.total() if self.result.layout == "folder" else counts.total() // 2 + 1
        return next((name for name, count in counts.items() if count >= least), "")

    def _is_readable(self, student: str, known: Known) -> bool:
        """Return whether a notebook that can be read lies where an unreadable one would be placed."""
        try:
            read(self.course / "submitted" / student / known.assignment / f"{known.name}.ipynb")
        except NotGradable:
            return False
        return True

    def _choose(self, several: list[_Notebook]) -> _Notebook:
        *others, best = sorted(several, key=lambda each: each.rank(self.dated))
        for other in others:
            older = other.answered or not best.answered
            why = "a newer one counts" if older else "nothing is answered in it, unlike in"
            self._leave([other.arrival], f"{why} {text_of(best.label.file.name)}")
        return best

    def _place(
        self, student: str, assignment: str, its: list[_Notebook], files: list[tuple[Arrival, bytes]]
    ) -> list[tuple[Arrival, bytes]]:
        """Write one student's folder of one assignment, in full or not at all; return the files that belong elsewhere."""
        target = self.course / "submitted" / student / assignment
        if any(path.is_symlink() for path in (target, *target.parents[:2])):
            raise CommandError(
                f"{target} is a link, or is inside one. Put a folder there, and then run the same command again."
            )
        contents = {f"{notebook.known.name}.ipynb": notebook.content for notebook in its}
        label = its[0].label if its else self.labels[files[0][0]]
        if not its:
            contents = {text_of(self.labels[each].file.name): content for each, content in files}
            files = []
        unchanged = all(
            (target / name).is_file() and (target / name).read_bytes() == contents[name] for name in contents
        )
        written = hand_in_time(target, self.times.zone)
        before = written.when
        said = self._handed_in(student, its, target / STAMP, before if unchanged else None)
        stamp = said.when
        if written.note and not before and (stamp or not unchanged):
            instead = "the time in the download replaced it" if stamp else "what took its place counts as on time"
            self.result.notes.append(f"{written.note}; {instead}.")
        elif written.note and not said.words:
            self.result.notes.append(f"{advice(written, self.times.zone)}.")
        if before and stamp and stamp < before:
            self._leave([each.arrival for each in its], f"{target.relative_to(self.course)} holds a newer one")
            return files
        staged = Path(tempfile.mkdtemp(dir=self.desk), "folder")
        if target.exists():  # notebooks that came with an earlier zip
            shutil.copytree(target, staged, ignore=_left_out)
        staged.mkdir(exist_ok=True)
        elsewhere = []
        for each, content in files:
            if place := self._beside(each, its):
                path = staged / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            else:
                elsewhere.append((each, content))
        for name, content in contents.items():
            (staged / name).write_bytes(content)
        if unchanged and written.note and not stamp:
            shutil.copy2(target / STAMP, staged / STAMP)
        elif stamp:
            (staged / STAMP).write_text(stamp.astimezone(UTC).strftime(FORMAT), encoding="utf-8")
        elif said.words and its:  # for `grade` to name
            (staged / STAMP).write_text(said.words, encoding="utf-8")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            os.replace(target, staged.with_name("before"))  # both moves are instant, so that a stop loses nothing
        os.replace(staged, target)
        if label.number:
            participant = Participant(self.result.layout, label.name, label.number, label.upload)
            self.participants[f"{student}/{assignment}"] = participant
        places = self.result.known if unchanged and stamp == before else self.result.placed
        places += [f"{student}/{assignment}/{name}" for name in contents]
        return elsewhere

    def _beside(self, each: Arrival, its: list[_Notebook]) -> Path | None:
        """Return the place of a file beside a notebook: what lies in the notebook's folder, or below it."""
        own = self.labels[each].file
        for notebook in its:
            folder = notebook.label.file.parent
            if own.is_relative_to(folder):
                parts = [text_of(part) for part in own.relative_to(folder).parts]
                return Path(*parts) if parts and not _is_odd(parts) else None
        return None

    def _handed_in(self, student: str, its: list[_Notebook], file: Path, before: datetime | None) -> Said:
        """Return when the newest was handed in, as far as anything says it; what nobody knows counts as in time.

        `before` is what `file` says of the same notebooks: an instructor may know better than Canvas' zip.
        """
        found = []
        for each in its:
            said = self.times.of(each.arrival, each.label)
            if said.reason:
                instead = "the date in the zip was used" if said.when else f"{student} counts as on time"
                instead = f"what {STAMP} of {student} says stays" if before and not said.when else instead
                self.result.notes.append(f"{said.reason}, so {instead}.")
            if each.label.late and not before:
                said = Said(each.arrival.when)
                self.result.notes.append(
                    f"{text_of(str(each.arrival.path))} is LATE, and Canvas' zip does not say by how much, so "
                    f"the time of the download was used. Write the right one into {file}, as {example(self.times.zone)}."
                )
            found.append(said)
        words = next((said.words for said in found if said.words), "")
        return Said(max((said.when for said in found if said.when), default=before), words)


def _is_odd(parts: list[str]) -> bool:
    """Return whether a path is that of a hidden file, or would say when all of it was handed in."""
    return parts == [STAMP] or any(part.startswith(".") for part in parts)


def _left_out(folder: str, names: list[str]) -> list[str]:
    """Return what of an earlier hand-in is not kept: its time, and links, which would be copied as what they lead to."""
    return [name for name in names if name == STAMP or os.path.islink(f"{folder}/{name}")]
