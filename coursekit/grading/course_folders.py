"""Where submissions are, and where their outcomes go: never into a folder that may have been handed in.

The state of a run carries a token that takes the user's key to make, so a folder that came with a notebook is known.
"""

import hmac
import json
import os
import secrets
import stat
from itertools import chain
from pathlib import Path

from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole
from coursekit.grading.submission import RUN_STATE, is_in_a_course
from coursekit.learner.progress import home
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import Nursery

FOREIGN = (
    "{folder} was not made by your own `coursekit grade`, or it contains a link, so it may have come with the notebook. "
    "Move it away, and then grade again."
)
UNKNOWN_COURSE = (
    "You have not graded anything in {folder} yet, where the outcome of {notebook} would go. If that course is yours, start with "
    "`coursekit grade {submitted} --only {who}`. If all of it was handed in, copy the notebook out of it first."
)
INSIDE = (
    "{submitted} lies inside a folder named submitted, so everything around it was handed in. Give the submitted/ folder of your "
    "course, and choose with --only."
)


class Place:
    """The folder of all submissions, or one notebook, and the folder for the outcomes.

    What comes of one notebook lies beside it in graded/, or in the course in whose submitted/ it is.
    """

    def __init__(self, submitted: Path):
        self.submitted = submitted.resolve() if submitted.is_dir() else submitted.parent.resolve() / submitted.name
        is_file = self.submitted.is_file()
        self.alone = is_file and not is_in_a_course(self.submitted)
        course = self.submitted.parents[3] if is_file and not self.alone else self.submitted.parent
        self.folder = course / "graded" if self.alone else course
        self.state = self.folder / RUN_STATE

    def new_nursery(self, limits: Limits, isolated: bool) -> Nursery:
        """Return a nursery that waits to be told what it has to import, and hides the outcomes from its sandboxes."""
        return Nursery(limits, isolated=isolated, hidden=[str(self.folder)], imports="later")

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


def token(folder: Path, seed: int) -> str:
    """Return what shows that this user began a run with a seed in a folder; raises OSError where no key can be kept."""
    return hmac.digest(_key(), f"{seed} {folder}".encode("utf-8", "surrogateescape"), "sha256").hex()


def is_ours(state: Path) -> bool:
    """Return whether this user's own run wrote the state that lies in a folder; one that was handed in has no such token."""
    try:
        if not stat.S_ISREG(state.lstat().st_mode):
            return False
        run = json.loads(state.read_text(encoding="utf-8"))
        return hmac.compare_digest(run["token"], token(state.parent, run["seed"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False


def is_plain(folder: Path) -> bool:
    """Return whether there are only folders and files, nothing that leads elsewhere: links are never written through."""
    kinds = (stat.S_IFMT(path.lstat().st_mode) for path in chain([folder], folder.rglob("*")))
    return all(kind in (stat.S_IFDIR, stat.S_IFREG) for kind in kinds)


def _key() -> bytes:
    """Return the user's key, which is made when it is first needed."""
    path = home() / "grading.key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, secrets.token_bytes(32), private=True)
    return path.read_bytes()
