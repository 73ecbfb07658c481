"""Grade a whole class: every submission ends with one outcome that is kept, whatever happens to it or to this program."""

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout
from nbformat import NotebookNode
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import configure_mappers

from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole
from coursekit.basics.journal import Journal
from coursekit.basics.readers_language import speaking
from coursekit.basics.tables import write_table
from coursekit.grading import local_runner
from coursekit.grading.book_marks import Marks, marks_of
from coursekit.grading.check_versions import expect_the_same
from coursekit.grading.class_tables import Office
from coursekit.grading.comments import Comments, fitting, load
from coursekit.grading.course_folders import Place, token
from coursekit.grading.gradebook import Book, out_of_use
from coursekit.grading.grading_plan import imports_of
from coursekit.grading.hand_in_time import advice, hand_in_time
from coursekit.grading.nbgrader_settings import Course
from coursekit.grading.outcome import MOVED, Options, Outcome, now, students_alone, try_to_record
from coursekit.grading.source_notebooks import Masters, chapters_of, masters_of, notebooks_of, refuse_unknown
from coursekit.grading.student_page import COLUMNS, page_of, write_grades, write_page
from coursekit.grading.submission import Submission, find, find_one, is_in_a_course
from coursekit.grading.worker_node import Setup
from coursekit.sandbox.nursery import Nursery

NO_SANDBOX = (
    "No sandbox can be created here: {reason}. Grade on Linux, or add --no-sandbox if you trust every submission."
)
SUBMITTED = "{folder} holds the hand-ins. Give the course's folder instead: {course}"
NOTHING = "Nothing has been graded in {folder} yet. Run: coursekit grade {submitted}"


Report = Callable[[dict, int, int], None]  # the line of results.jsonl, done, all


class Run(Place):
    """One grading run in a course folder. Its secret seed is kept there, so that a run can be continued."""

    def __init__(self, submitted: Path, options: Options, nursery: Nursery | None = None):
        self.options, self.nursery = options, nursery
        super().__init__(submitted)
        self.journal = Journal(self.folder / "results.jsonl")
        self.seed = -1  # until the run has begun
        self.marks: dict[str, Marks] = {}  # what the gradebook says, once all is graded
        self.doubts: dict[str, str] = {}  # what a person should know of the time of a hand-in, by its folder
        self.moved: list[str] = []  # what was graded under another student's name before
        self.outsiders: list[str] = []  # who handed in and is not on the roster, if there is one
        self.comments: Comments = {}

    @classmethod
    def of(cls, course: Path) -> "Run":
        """Return a course's run, to read what came of it; raises CommandError where the folder submitted/ is named in its place."""
        folder = course.resolve()
        if folder.name == "submitted" and not (course / "submitted").exists():
            raise CommandError(SUBMITTED.format(folder=course, course=os.path.relpath(folder.parent)))
        return cls(course / "submitted", Options())

    def _begin(self, wanted: list[Submission]) -> int:
        """Return the seed of the run that is under way, or begin a new one, in which the outcomes of others stay."""
        old = json.loads(self.state.read_text()) if self.state.exists() else {}
        chosen = self.options.seed
        if old and not self.options.again and chosen in (None, old["seed"]):
            self._write_state(old)  # also where it came from elsewhere: who names a course says that it is theirs
            return int(old["seed"])
        if old and not self.options.again:
            raise CommandError(
                f"{self.folder} holds a run with a different seed. To regrade everything with --seed {chosen}, add --again."
            )
        self.journal.start_again({item.key for item in wanted})
        seed = secrets.randbits(62) if chosen is None else chosen
        earlier, _ = old.pop("earlier", []), old.pop("token", "")
        self._write_state({"seed": seed, "earlier": [*earlier, old | {"until": now()}] if old else []})
        return seed

    def _write_state(self, state: dict) -> None:
        """Write the state for its owner only, in full or not at all; with a token, where the user's key can be kept."""
        with contextlib.suppress(OSError):
            state["token"] = token(self.folder, state["seed"])
        write_whole(self.state, json.dumps(state), private=True)

    def masters(self) -> Masters:
        """Return the instructor's notebooks by assignment and name; raises CommandError."""
        return masters_of(None if self.alone else self.course)

    def go(self, report: Report) -> list[dict]:
        """Grade what has no outcome yet; return what grades.csv holds of all submissions."""
        if (self.options.seed or 0) < 0:
            raise CommandError(f"A seed is a whole number that is not negative; {self.options.seed} is not one.")
        self.refuse_foreign()
        with self.speaking():
            if self.nursery or self.options.address:
                return self._grade(report)
            with self.new_nursery(self.options.limits, self.options.sandbox) as self.nursery:
                try:
                    return self._grade(report)
                finally:
                    self.nursery = None

    def speaking(self) -> contextlib.AbstractContextManager[None]:
        """Write for people in the class's language: all that programs read stays English."""
        return speaking(self.course.settings.language)

    def _grade(self, report: Report) -> list[dict]:
        masters = self.masters()
        everything = self._everything(masters)
        found = self._wanted(everything)
        assignments = {item.assignment for item in found}
        if self.nursery:
            self.nursery.bring(imports_of(master for (owner, _), master in masters.items() if owner in assignments))
        refuse_unknown(masters, assignments)
        masters |= self._ready(masters, assignments)
        configure_mappers()  # of the gradebook, while the nursery starts
        if self.nursery and self.options.sandbox and (reason := self.nursery.refusal()):
            raise CommandError(NO_SANDBOX.format(reason=reason))
        self.folder.mkdir(exist_ok=True)
        self.comments = {} if self.alone else load(self.folder)
        with self._alone_at_work():
            if not self.alone:
                everybody_again = self.options.again and not self.options.only and not self.submitted.is_file()
                expect_the_same(self.folder, chapters_of(found, masters), everybody_again)
            self.seed = self._begin(found)
            rows = {line["key"]: _row(line) for line in self.journal.lines()}
            try:
                here = set() if self.submitted.is_file() else {item.key for item in everything}
                self._go(found, here, masters, report, rows)
            except BaseException:  # the tables say how far it has come, if they can be written
                with contextlib.suppress(OSError, SQLAlchemyError), Book(self.course) as book:
                    self.marks = marks_of(book.gradebook)
                    self._write_tables(rows, everything, masters)
                raise
            self._write_tables(rows, everything, masters)
            return [rows[item.key] for item in found]

    def lines(self) -> dict[str, dict]:
        """Return the lines of results.jsonl by their keys; raises CommandError where nothing has been graded."""
        self.refuse_foreign()
        lines = {line["key"]: line for line in self.journal.lines()}
        if not lines:
            raise CommandError(NOTHING.format(folder=self.folder, submitted=self.submitted))
        return lines

    def report(self) -> int:
        """Write all pages and the table again, from the gradebook as it is now and results.jsonl; return how many pages."""
        lines = self.lines()
        masters = self.masters()
        everything = self._everything(masters)
        with self._alone_at_work(), self.speaking(), self.book() as book:
            comments = load(self.folder)
            for line in lines.values():
                book.comment(line, fitting(comments, line))
            self.marks = book.marks(_as_graded(everything, lines))
            for key, line in lines.items():
                self._write_page(line, book.autograded(line), self.marks.get(key))
            self._write_tables({key: _row(line) for key, line in lines.items()}, everything, masters)
        return len(lines)

    @contextlib.contextmanager
    def _alone_at_work(self) -> Iterator[None]:
        """Let no other run write in the course's folder; raises CommandError where one does."""
        try:
            with FileLock(self.folder / ".coursekit-run.lock", timeout=0):
                yield
        except Timeout:
            raise CommandError(
                f"Another `coursekit grade` is running in {self.folder}: wait until it's done, or stop it."
            ) from None

    @contextlib.contextmanager
    def book(self) -> Iterator[Book]:
        """Open the gradebook; raises CommandError where another program holds it."""
        try:
            with Book(self.course) as book:
                yield book
        except SQLAlchemyError as error:
            raise CommandError(f"{out_of_use(error, self.course)} Then run the same command again.") from None

    @cached_property
    def course(self) -> Course:
        """The course's folder with its configuration, which is Python: a lone notebook's folder has none."""
        return Course(self.folder, configured=not self.alone)

    def unheard(self) -> list[str]:
        """Return what the course's configuration says and grading does not go by; raises CommandError as `go` does."""
        self.refuse_foreign()
        return self.course.unheard()

    def _ready(self, masters: Masters, assignments: set[str]) -> Masters:
        """Return the course's own notebooks of some assignments as answers to them are judged; raises CommandError."""
        sources = {} if self.alone else self.course.sources()
        wanted = {key: path for key, path in sources.items() if key[0] in assignments}
        return {key: self.course.ready(path, masters[key]) for key, path in wanted.items()}

    def _go(
        self, found: list[Submission], here: set[str], masters: Masters, report: Report, rows: dict[str, dict]
    ) -> None:
        """Grade some submissions; `here` are the keys of all that lie in submitted/, none where only one was named."""
        todo = [item for item in found if self.alone or rows.get(item.key, {}).get("digest") != item.digest]
        with Book(self.course) as book:
            for assignment in {item.assignment for item in todo}:
                for (owner, _), master in masters.items():
                    if owner == assignment:
                        book.prepare(assignment, master)
            if here:
                self._take_back(todo, here, rows, book)
            for done, outcome in enumerate(self._outcomes(todo, masters), 1):
                line = self._keep(outcome, masters, book)
                rows[line["key"]] = _row(line)
                report(line, done, len(todo))
            self.marks = book.marks([] if self.alone else _as_graded(found, rows))

    def _take_back(self, todo: list[Submission], here: set[str], rows: dict[str, dict], book: Book) -> None:
        """Take the points from a student whose graded notebook has been moved to another: the name was wrong."""
        new = {(item.assignment, item.notebook, item.digest): item.student for item in todo if not item.problem}
        for key, row in rows.items():
            right = new.get((row["assignment"], row["notebook"], row["digest"]))
            if right and key not in here and row["outcome"] == "graded":
                line = {**row, "outcome": "moved", "score": 0, "max_score": 0, "results": {}, "when": now()}
                line["reason"] = MOVED.format(student=right)
                book.remove(row["student"], row["assignment"], row["notebook"])
                self._write_page(line, None, None)
                self.journal.add(line)
                rows[key] = _row(line)
                self.moved.append(f"{key} had been graded and was moved to {right}: its points were taken back.")

    def _write_tables(self, rows: dict[str, dict], everything: list[Submission], masters: Masters) -> None:
        """Write the table of all outcomes, without what could not be graded and has been put right or taken away since.

        In a course, it says of everybody on the roster what is missing, and the final table lies beside it.
        """
        if self.alone:
            write_grades(self.folder / "grades.csv", list(rows.values()), self.marks)
            return
        if self.submitted.is_file():
            everything = find(self.submitted.parents[2], notebooks_of(masters))
        office = self._office(rows, everything, masters)
        write_grades(self.folder / "grades.csv", office.rows(), self.marks)
        write_table(self.folder / "final.csv", office.final())

    def office(self) -> Office:
        """Return the class as its gradebook says now; raises CommandError where nothing has been graded."""
        rows = {key: _row(line) for key, line in self.lines().items()}
        masters = self.masters()
        everything = self._everything(masters)
        with self._alone_at_work(), self.book() as book:
            self.marks = marks_of(book.gradebook)
        return self._office(rows, everything, masters)

    def _office(self, rows: dict[str, dict], everything: list[Submission], masters: Masters) -> Office:
        here = {item.key for item in everything}
        kept = {key: row for key, row in rows.items() if key in here or row["outcome"] == "graded"}
        roster = {student.id for student in self.course.settings.students}
        self.outsiders = sorted({item.student for item in everything} - roster - {""}) if roster else []
        self.doubts, zone = {}, self.course.settings.zone
        for item in everything:
            note = "" if item.problem else advice(hand_in_time(item.folder, zone), zone)
            if note and item.key in kept:
                self.doubts[f"{item.student}/{item.assignment}"] = note
                kept[item.key] = kept[item.key] | {"reason": "; ".join(filter(None, [kept[item.key]["reason"], note]))}
        return Office(self.course.settings, masters, kept.values(), self.marks, everything)

    def _everything(self, masters: Masters) -> list[Submission]:
        """Return all submissions; raises CommandError where there are none."""
        notebooks = notebooks_of(masters)
        if not self.submitted.is_file():
            found = find(self.submitted, notebooks) if self.submitted.exists() else []
        elif is_in_a_course(self.submitted):
            found = [item for item in find(self.submitted.parents[2], notebooks) if item.path == self.submitted]
        else:
            return find_one(self.submitted)
        if not any(item.assignment in notebooks for item in found):
            raise CommandError(
                f"There is nothing to grade in {self.submitted}: expected <student>/<assignment>/*.ipynb, "
                f"where the assignments are {', '.join(sorted(notebooks))}."
            )
        return found

    def _wanted(self, everything: list[Submission]) -> list[Submission]:
        """Return the submissions that --only names; raises CommandError where there are none."""
        wanted = [item for item in everything if not self.options.only or item.names() & set(self.options.only)]
        if not wanted:
            raise CommandError(
                f"Nothing in {self.submitted} matches --only {' '.join(self.options.only)}. Give a student, "
                f"an assignment, or student/assignment, as in the names of the folders."
            )
        return wanted

    def _keep(self, outcome: Outcome, masters: Masters, book: Book) -> dict:
        """Keep an outcome: gradebook, page, and last the line that says it is done."""
        item = outcome.submission
        has_place = item.assignment in {assignment for assignment, _ in masters}  # in the gradebook
        if has_place and (reason := try_to_record(item, outcome.graded, book)):
            outcome = Outcome(item, None, reason)
            try_to_record(item, None, book)  # no points, if the gradebook takes at least these
        line = {"key": item.key} | outcome.line(masters.get((item.assignment, item.notebook)))
        if self.comments and has_place:
            book.comment(line, fitting(self.comments, line))
        try:
            marks = marks_of(book.gradebook, item.student, item.assignment).get(item.key) if has_place else None
            ran = outcome.graded.notebook if outcome.graded else None
            self._write_page(line, ran, marks)
        except Exception as error:
            line["reason"] = "; ".join(filter(None, [line["reason"], f"it has no page: {students_alone(error)}"]))
        self.journal.add(line)
        return line

    def _write_page(self, line: dict, ran: NotebookNode | None, marks: Marks | None) -> None:
        settings = self.course.settings
        name = next((student.name for student in settings.students if student.id == line["student"]), "")
        write_page(page_of(self.folder, line), line, ran, marks, settings.zone, name)

    def _configured(self) -> Options:
        """Return the options, with the seconds that the course's configuration gives a cell where they are left to it."""
        options, seconds = self.options, self.course.cell_seconds()
        if not options.configured or seconds is None:
            return options
        limits = replace(options.limits, cell_seconds=min(seconds, options.limits.total_seconds))
        return replace(options, limits=limits)

    def _outcomes(self, todo: list[Submission], masters: Masters) -> Iterator[Outcome]:
        """Yield the outcomes as they come, `jobs` submissions at a time; never more than a few wait in memory."""
        options = self._configured()
        graded = {item.assignment for item in todo}  # a node imports what these need
        needed = {key: master for key, master in masters.items() if key[0] in graded}
        setup = Setup(needed, self.seed, options.limits, options.all_cells, options.sandbox, str(self.folder))
        if self.nursery:
            yield from local_runner.outcomes(todo, setup, options, self.nursery)
        else:
            from coursekit.grading.cluster import outcomes

            yield from outcomes(todo, setup, options)


def _as_graded(found: Iterable[Submission], rows: Mapping[str, dict]) -> list[Submission]:
    """Return the submissions of which all notebooks lie there as they were graded."""
    newer = {item.folder for item in found if rows.get(item.key, {}).get("digest") != item.digest}
    return [item for item in found if item.folder not in newer]


def _row(line: dict) -> dict:
    """Return what is kept in memory of a line of results.jsonl: what grades.csv says, and what tells whether it is up to date."""
    return {name: line.get(name) for name in ("key", "digest", *COLUMNS)}
