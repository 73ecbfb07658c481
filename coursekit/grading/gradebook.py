"""Scores go into nbgrader's gradebook through its own API, so that formgrader, feedback and export work unchanged."""

import contextlib
import os
import shutil
import stat
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook, InvalidEntry, MissingEntry
from sqlalchemy import make_url
from sqlalchemy.exc import SAWarning, SQLAlchemyError
from traitlets.config import Config

from coursekit.author import nbgrader_config
from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole
from coursekit.basics.paths import path_with_scripts
from coursekit.grading.book_marks import Marks, marks_of
from coursekit.grading.enrollment import assess_penalties, enrol, extension, utc
from coursekit.grading.grading_plan import Master, points_of
from coursekit.grading.hand_in_time import FORMAT, HandInTime, hand_in_time
from coursekit.grading.nbgrader_settings import Course
from coursekit.grading.submission import STAMP, Submission, text_of
from coursekit.grading.submission_grader import Graded

NO_RESPONSE = "No response."  # as nbgrader says it
OTHER_CELLS = (
    "The cells for {name} in the gradebook differ from those in source/, and submissions refer to them. Restore the cells in "
    "source/ or, if you graded nothing by hand, run `nbgrader db assignment remove {assignment} --force` "
    "and grade with --again."
)


class Book:
    """The gradebook of one course; `with Book(course) as book:` keeps one connection open."""

    def __init__(self, course: Course):
        self.folder, self.settings = course.folder, course.settings
        self.config, self.course = course.config, course.directory

    def __enter__(self) -> "Book":
        os.environ["PATH"] = path_with_scripts()
        # of the way nbgrader adds a submission
        warnings.filterwarnings("ignore", category=SAWarning, module="nbgrader")
        self.gradebook = Gradebook(self.course.db_url, self.course.course_id)
        enrol(self.gradebook, self.settings, self.config)
        return self

    def __exit__(self, *error: object) -> None:
        self.gradebook.close()

    def prepare(self, assignment: str, master: Master) -> None:
        """Make sure that the gradebook knows the cells of a notebook, as `nbgrader generate_assignment` would.

        Raises CommandError where source/ has other cells now than the submissions that the gradebook holds.
        """
        if self._is_prepared(assignment, master):
            return
        with self._undone_where_it_fails():
            self._save_cells(assignment, master)

    def _save_cells(self, assignment: str, master: Master) -> None:
        due = {"duedate": self.settings.due[assignment]} if assignment in self.settings.due else {}
        self.gradebook.update_or_create_assignment(assignment, **due)
        resources: Any = {"nbgrader": {"notebook": master.name, "assignment": assignment, "db_url": self.course.db_url}}
        notebook: NotebookNode = nbformat.from_dict(master.notebook)
        for preprocessor in nbgrader_config.PREPROCESSORS:
            notebook, resources = preprocessor(config=Config())(notebook, resources)
        self.gradebook.db.expire_all()

    def _is_prepared(self, assignment: str, master: Master) -> bool:
        """Return whether the gradebook has all cells of a notebook; a killed run may have left some, and source/ may change."""
        try:
            notebook = self.gradebook.find_notebook(master.name, assignment)
        except MissingEntry:
            return False
        known, wanted = _cells_in_book(notebook), _cells_of(master.notebook)
        if notebook.submissions and {cell[:2] for cell in known} != {cell[:2] for cell in wanted}:
            raise CommandError(OTHER_CELLS.format(name=f"{assignment}/{master.name}", assignment=assignment))
        return known == wanted

    def record(self, submission: Submission, graded: Graded | None) -> None:
        """Write the scores of one submission; one that could not be graded is there with no points.

        An error that has to do with this submission alone leaves the gradebook as it was.
        """
        with self._undone_where_it_fails():
            self._record(submission, graded)

    @contextlib.contextmanager
    def _undone_where_it_fails(self) -> Iterator[None]:
        """Undo what an error has left half done, and raise the database's own error for the InvalidEntry that nbgrader makes of it."""
        try:
            yield
        except Exception as error:
            self.gradebook.db.rollback()
            if isinstance(error, InvalidEntry) and isinstance(error.__context__, SQLAlchemyError):
                raise error.__context__ from None
            raise

    @contextlib.contextmanager
    def _at_once(self) -> Iterator[None]:
        """Write in one transaction what nbgrader commits step by step: each commit waits for the disk, and has all read again."""
        session = self.gradebook.db
        session.commit = session.flush
        try:
            yield
        finally:
            del session.commit
        session.commit()

    def _record(self, submission: Submission, graded: Graded | None) -> None:
        with self._at_once():
            self._write_submission(submission, graded)
            if graded is not None:
                self.gradebook.db.flush()
                self.gradebook.db.expire_all()  # nbgrader's sums are read again, as after a commit
                names = (submission.notebook, submission.assignment, submission.student)
                assess_penalties(self.gradebook, self.config, [self.gradebook.find_submission_notebook(*names)])
        if graded is not None:
            self._write_autograded(submission, graded)

    def _write_submission(self, submission: Submission, graded: Graded | None) -> None:
        self.gradebook.update_or_create_student(submission.student)
        time = self.time_of(submission)
        more = {"timestamp": time.when and utc(time.when)} if time.when or time.note else {}
        entry = self.gradebook.update_or_create_submission(submission.assignment, submission.student, **more)
        if submission.assignment in self.settings.due:
            entry.extension = extension(self.settings, submission.student, submission.assignment)
        for notebook in entry.notebooks:
            if notebook.name == submission.notebook:  # the others have outcomes of their own
                self._write_scores(notebook, graded)

    def _write_scores(self, notebook: Any, graded: Graded | None) -> None:
        """Write what each cell earned; what a person grades waits for that person, unless it is as it was handed out.

        So does what is missing: its answer may stand elsewhere, as those to a task do, and only a person can tell; and an answer
        on which the check itself failed.
        """
        cells = graded.notebook.cells if graded and graded.notebook else []
        written = {cell.metadata.nbgrader.grade_id: cell.source for cell in cells if "nbgrader" in cell.metadata}
        given = {cell.name: cell.source for cell in notebook.notebook.source_cells}
        tasks = {cell.name for cell in notebook.notebook.task_cells}
        answered = {name for name, source in given.items() if name in tasks or written.get(name) != source}
        for grade in notebook.grades:
            result = graded.results.get(grade.name) if graded else None
            by_hand = graded is not None and result is None and grade.name in answered
            grade.auto_score = None if by_hand else float(result.earned if result else 0)
            unjudged = result is not None and result.status == "unjudged"
            grade.needs_manual_grade = by_hand or unjudged or grade.manual_score is not None
        for comment in notebook.comments:
            comment.auto_comment = None if graded is None or comment.name in answered else NO_RESPONSE

    def _write_autograded(self, submission: Submission, graded: Graded) -> None:
        """Write the notebook that formgrader shows and feedback is made of, with the files that came with it."""
        folder = Path(
            self.course.format_path(self.course.autograded_directory, submission.student, submission.assignment)
        )
        folder.mkdir(parents=True, exist_ok=True)
        for path in [] if submission.single else _beside(submission.folder, graded.notes):
            _copy(path, folder, graded.notes)
        if when := self.time_of(submission).when:
            _write(folder / STAMP, when.strftime(FORMAT).encode(), graded.notes)
        for name, content in graded.files.items():
            _write(folder / name, content, graded.notes)
        target = folder / f"{submission.notebook}.ipynb"
        write_whole(target, nbformat.v4.writes(graded.notebook))  # as `nbformat.writes` without its look for errors

    def time_of(self, submission: Submission) -> HandInTime:
        """Return when something was handed in, by the clock of the class."""
        return HandInTime() if submission.single else hand_in_time(submission.folder, self.settings.zone)

    def marks(self, graded: Iterable[Submission]) -> dict[str, Marks]:
        """Return all marks; where a timestamp.txt has been corrected since its notebook was graded, it counts from now on."""
        marks = marks_of(self.gradebook)
        times = {each: self.time_of(each) for each in graded if self.settings.is_there and each.key in marks}
        stamps = {each: time.when and utc(time.when) for each, time in times.items() if time.when or time.note}
        corrected = {each: stamp for each, stamp in stamps.items() if stamp != marks[each.key].handed_in}
        for each, stamp in corrected.items():
            self.gradebook.find_submission(each.assignment, each.student).timestamp = stamp
        if not corrected:
            return marks
        self.gradebook.db.commit()
        assess_penalties(self.gradebook, self.config)
        return marks_of(self.gradebook)

    def remove(self, student: str, assignment: str, notebook: str) -> None:
        """Remove a notebook that was graded as a wrong student's; a student who is not on the roster goes with their last one."""
        folder = Path(self.course.format_path(self.course.autograded_directory, student, assignment))
        (folder / f"{notebook}.ipynb").unlink(missing_ok=True)
        if not any(folder.glob("*.ipynb")):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(MissingEntry):
            self.gradebook.remove_submission_notebook(notebook, assignment, student)
            if not self.gradebook.find_submission(assignment, student).notebooks:
                self.gradebook.remove_submission(assignment, student)
            known = {each.id for each in self.settings.students}
            if student not in known and not self.gradebook.student_submissions(student):
                self.gradebook.remove_student(student)

    def comment(self, line: dict, texts: dict[str, str]) -> None:
        """Write comments on answers, by their cells, instead of those that were written this way before."""
        names = (line["notebook"], line["assignment"], line["student"])
        with contextlib.suppress(MissingEntry):
            for comment in self.gradebook.find_submission_notebook(*names).comments:
                if comment.name in texts or comment.auto_comment != NO_RESPONSE:
                    comment.auto_comment = texts.get(comment.name)
            self.gradebook.db.commit()

    def autograded(self, line: dict) -> NotebookNode | None:
        """Return the notebook as it ran, None where there is none."""
        folder = self.course.format_path(self.course.autograded_directory, line["student"], line["assignment"])
        path = Path(folder, f"{line['notebook']}.ipynb")
        return nbformat.read(path, as_version=4) if line["outcome"] == "graded" and path.exists() else None


def out_of_use(error: SQLAlchemyError, course: Course) -> str:
    """Return why a course's gradebook cannot be used, by its file's name and without SQL, and what to do."""
    url = make_url(course.directory.db_url)
    name = url.database if url.drivername.startswith("sqlite") else url.render_as_string(hide_password=True)
    said = getattr(error, "orig", None) or error
    if "locked" in str(said):
        return f"{name} is in use by another program, such as formgrader or a database viewer. Close that program."
    return f"{name} cannot be used ({said})."


def _cells_in_book(notebook: Any) -> set[tuple]:
    """Return the cells of a notebook in the gradebook: the kind, the name and the points of each."""
    found: set[tuple] = {("grade", cell.name, cell.max_score) for cell in notebook.grade_cells}
    found |= {("task", cell.name, cell.max_score) for cell in notebook.task_cells}
    found |= {("solution", cell.name) for cell in notebook.solution_cells}
    return found | {("source", cell.name) for cell in notebook.source_cells}


def _cells_of(notebook: NotebookNode) -> set[tuple]:
    """Return the cells of a source notebook in the same words: those that nbgrader's SaveCells would save."""
    found = set[tuple]()
    for cell in (cell for cell in notebook.cells if not nbgrader_config.is_for_instructors(cell)):
        kinds = {"grade": utils.is_grade(cell), "task": utils.is_task(cell), "solution": utils.is_solution(cell)}
        for kind in (kind for kind, holds in kinds.items() if holds):
            points = (points_of(cell),) if kind != "solution" else ()
            found.add((kind, cell.metadata.nbgrader.grade_id, *points))
        if any(kinds.values()) or utils.is_locked(cell):
            found.add(("source", cell.metadata.nbgrader.grade_id))
    return found


def _beside(folder: Path, notes: list[str]) -> list[Path]:
    """Return what lies beside a notebook, without its timestamp; [] where the folder cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix != ".ipynb" and path.name != STAMP)
    except OSError as error:
        notes.append(f"the files beside the notebook cannot be found ({error.strerror}): they were left out")
        return []


def _copy(path: Path, folder: Path, notes: list[str]) -> None:
    """Copy a small file that came with a notebook; one that cannot be read is left out, and noted."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size >= 2**20:
            return
        content = path.read_bytes()
    except OSError as error:
        name = text_of(path.name)
        notes.append(f"the file {name} beside the notebook cannot be read ({error.strerror}): it was left out")
        return
    (folder / path.name).unlink(missing_ok=True)  # nbgrader makes what it has copied read-only
    (folder / path.name).write_bytes(content)


def _write(path: Path, content: bytes, notes: list[str]) -> None:
    """Write a file that a cell wrote; where something else stands in its way, it is left out, and noted."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        notes.append(f"the file {path.name}, which a cell wrote, was not kept ({error.strerror})")
