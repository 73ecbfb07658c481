"""Where submissions are, and where their outcomes go: never into a folder that may have been handed in."""

import os
from pathlib import Path

from coursekit.basics.errors import CommandError
from coursekit.grading.own_folders import is_ours, is_plain
from coursekit.grading.submission import RUN_STATE, is_in_a_course

FOREIGN = (
    "{folder} was not made by your own `coursekit grade`, or there is a link in it: it may have come with the notebook. "
    "Move it away, then grade again."
)
UNKNOWN_COURSE = (
    "You have not graded anything in {folder} yet, where the outcome of {notebook} would go. If that course is yours, begin with "
    "`coursekit grade {submitted} --only {who}`. If all of it was handed in, copy the notebook out of it first."
)
INSIDE = (
    "{submitted} lies inside a folder named submitted, so everything around it was handed in. Name the submitted/ of your "
    "course, and choose with --only."
)


class Place:
    """The folder of all submissions, or one notebook, and the folder for the outcomes.

    What comes of one notebook lies beside it in graded/, or in the course in whose submitted/ it is.
    """

    def __init__(self, submitted: Path):
        self.submitted = submitted.resolve() if submitted.is_dir() else submitted.parent.resolve() / submitted.name
        self.alone = self.submitted.is_file() and not is_in_a_course(self.submitted)
        self.folder = folder_of(self.submitted)
        self.state = self.folder / RUN_STATE

    def refuse_foreign(self) -> None:
        """Raise CommandError where outcomes would go into a folder that may have been handed in, with a configuration and a state in it."""
        if not self.submitted.is_file():
            refuse_inside(self.submitted)
        elif self.alone:
            if os.path.lexists(self.folder) and not (is_plain(self.folder) and is_ours(self.state)):
                raise CommandError(FOREIGN.format(folder=self.folder))
        elif not is_ours(self.state):
            student, assignment = self.submitted.parts[-3:-1]
            places = {"folder": self.folder, "notebook": self.submitted, "submitted": self.submitted.parents[2]}
            raise CommandError(UNKNOWN_COURSE.format(who=f"{student}/{assignment}", **places))


def refuse_inside(submitted: Path) -> None:
    """Raise CommandError where the course around a folder submitted/ may have been handed in itself, its configuration too."""
    if any(folder.name == "submitted" for folder in submitted.parents):
        raise CommandError(INSIDE.format(submitted=submitted))


def folder_of(submitted: Path) -> Path:
    """Return where outcomes go: the course folder, or graded/ beside a notebook that lies in no course."""
    if not submitted.is_file():
        return submitted.parent
    return submitted.parents[3] if is_in_a_course(submitted) else submitted.parent / "graded"
