"""Scores go into nbgrader's gradebook through its own API, so that formgrader, feedback and export work unchanged."""

import os
import shutil
import stat
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps.baseapp import NbGrader
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc
from sqlalchemy.exc import SAWarning
from traitlets.config import Application, Config

from coursekit.grading import nbgrader_config
from coursekit.grading.grade import Graded
from coursekit.grading.plan import Master
from coursekit.grading.submission import Submission
from coursekit.paths import path_with_scripts


class Book:
    """The gradebook of one course; `with Book(folder) as book:` keeps one connection open."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config = _config_of(folder)
        self.course = CourseDirectory(config=self.config)
        self.course.root = str(folder)

    def __enter__(self) -> "Book":
        os.environ["PATH"] = path_with_scripts()
        warnings.filterwarnings(
            "ignore", category=SAWarning, module="nbgrader"
        )  # of the way nbgrader adds a submission
        self.gradebook = Gradebook(self.course.db_url, self.course.course_id)
        return self

    def __exit__(self, *error: object) -> None:
        self.gradebook.close()

    def prepare(self, assignment: str, master: Master) -> None:
        """Make sure that the gradebook knows the cells of a notebook, as `nbgrader generate_assignment` would."""
        try:
            self.gradebook.find_notebook(master.name, assignment)
        except MissingEntry:
            self.gradebook.update_or_create_assignment(assignment)
            resources: Any = {
                "nbgrader": {"notebook": master.name, "assignment": assignment, "db_url": self.course.db_url}
            }
            notebook: NotebookNode = nbformat.from_dict(master.notebook)
            for preprocessor in nbgrader_config.PREPROCESSORS:
                notebook, resources = preprocessor(config=Config())(notebook, resources)
            self.gradebook.db.expire_all()

    def record(self, submission: Submission, graded: Graded | None) -> None:
        """Write the scores of one submission; one that could not be graded is there with no points.

        An error that has to do with this submission alone leaves the gradebook as it was.
        """
        try:
            self._record(submission, graded)
        except Exception:
            self.gradebook.db.rollback()
            raise

    def _record(self, submission: Submission, graded: Graded | None) -> None:
        self.gradebook.update_or_create_student(submission.student)
        stamp = _handed_in(submission.folder)
        more = {"timestamp": stamp} if stamp else {}
        entry = self.gradebook.update_or_create_submission(submission.assignment, submission.student, **more)
        for notebook in entry.notebooks:
            if notebook.name == submission.notebook or not (submission.folder / f"{notebook.name}.ipynb").exists():
                self._write_scores(notebook, graded if notebook.name == submission.notebook else None)
        self.gradebook.db.commit()
        if graded is not None:
            self._late_penalty(submission)
            self._write_autograded(submission, graded)

    def _write_scores(self, notebook: Any, graded: Graded | None) -> None:
        """Write what each cell earned; what a person grades waits for that person, unless there is nothing to grade."""
        cells = graded.notebook.cells if graded and graded.notebook else []
        written = {cell.metadata.nbgrader.grade_id: cell.source for cell in cells if "nbgrader" in cell.metadata}
        given = {cell.name: cell.source for cell in notebook.notebook.source_cells}
        answered = {name for name, source in written.items() if source != given.get(name)}
        for grade in notebook.grades:
            result = graded.results.get(grade.name) if graded else None
            by_hand = result is None and grade.name in answered
            grade.auto_score = None if by_hand else float(result.earned if result else 0)
            grade.needs_manual_grade = by_hand or grade.manual_score is not None
        for comment in notebook.comments:
            comment.auto_comment = None if not cells or comment.name in answered else "No response."

    def _late_penalty(self, submission: Submission) -> None:
        """Apply the late policy that the course's configuration names; nbgrader's default is none."""
        names = {
            "notebook": submission.notebook,
            "assignment": submission.assignment,
            "student": submission.student,
        }
        resources = {"nbgrader": names | {"db_url": self.course.db_url}}
        if {"AssignLatePenalties", "LateSubmissionPlugin"} & set(self.config):
            AssignLatePenalties(config=self.config)(nbformat.v4.new_notebook(), resources)

    def _write_autograded(self, submission: Submission, graded: Graded) -> None:
        """Write the notebook that formgrader shows and feedback is made of, with the files that came with it."""
        folder = Path(
            self.course.format_path(self.course.autograded_directory, submission.student, submission.assignment)
        )
        folder.mkdir(parents=True, exist_ok=True)
        for path in submission.folder.iterdir():
            if path.is_file() and not path.is_symlink() and path.suffix != ".ipynb" and path.stat().st_size < 2**20:
                shutil.copyfile(path, folder / path.name)
        target = folder / f"{submission.notebook}.ipynb"
        partial = target.with_suffix(".partial")
        partial.write_text(nbformat.writes(graded.notebook), encoding="utf-8")
        os.replace(partial, target)


def _handed_in(folder: Path) -> datetime | None:
    """Return when it was handed in, None where timestamp.txt is missing or unreadable (anybody may have written it)."""
    path = folder / "timestamp.txt"
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and 0 < status.st_size < 100:
            when: datetime = parse_utc(path.read_text(encoding="utf-8").strip())
            return when
    except (OSError, ValueError, OverflowError):
        pass
    return None


def _config_of(folder: Path) -> Config:
    """Return nbgrader's configuration of a course folder: its nbgrader_config.py, and the user's."""
    app = NbGrader()
    app.config.CourseDirectory.root = str(folder)
    Application.load_config_file(app, "nbgrader_config", path=[str(folder), *app.config_file_paths])
    config: Config = app.config
    return config
