"""What a machine does for a run: it has a nursery, grades what it is given and writes nothing. A node of a cluster does no more."""

import contextlib
import hashlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

import coursekit
from coursekit.grading.grading_plan import Master, imports_of
from coursekit.grading.submission_grader import Graded, Grader
from coursekit.sandbox.limits import Limits
from coursekit.sandbox.nursery import Nursery, NurseryFailed


@dataclass(frozen=True)
class Setup:
    """What a machine needs to know to grade submissions of a run. It holds the judge's secrets, and no sandbox gets it."""

    masters: dict[tuple[str, str], Master]  # by assignment and name
    seed: int
    limits: Limits
    all_cells: bool
    isolated: bool
    hidden: str  # the course folder: no sandbox sees what is in it

    def grader(self, nursery: Nursery) -> Grader:
        """Return a grader that gives every submission of the run the same inputs."""
        return Grader(nursery, self.limits, self.seed, self.all_cells)


class NodeGrader:
    """Grades submissions on its node, several at a time, with the sandboxes of one nursery. It ends with the driver."""

    def __init__(self, setup: Setup):
        self.setup = setup
        self.grader: Grader | None = None

    def start(self, fingerprint: str) -> str:
        """Return why this node cannot grade, "" once it is ready to."""
        _be_an_ordinary_thread()
        if (own := fingerprint_of_coursekit()) != fingerprint:
            return (
                f"its coursekit differs from the one here ({own} there, {fingerprint} here): install the same version"
            )
        try:
            limits, isolated, hidden = self.setup.limits, self.setup.isolated, [self.setup.hidden]
            imports = imports_of(self.setup.masters.values())
            nursery = Nursery(limits, isolated=isolated, hidden=hidden, imports=imports)
            nursery.ready()
            self.grader = self.setup.grader(nursery)
        except NurseryFailed as error:
            return f"no sandbox can be created there: {error}"
        return ""

    def grade(self, key: tuple[str, str], notebook: NotebookNode, files: dict[str, bytes]) -> Graded:
        """Return what came of one submission."""
        assert self.grader
        _be_an_ordinary_thread()
        return self.grader.grade(notebook, self.setup.masters[key], files)


def _be_an_ordinary_thread() -> None:
    """Undo what Ray did to the thread that runs a task: a nursery that is started by it inherits it, with all its sandboxes."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # blocked signals: nothing could interrupt a cell
    with contextlib.suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, 0)  # nice to all others: time limits would come early


def fingerprint_of_coursekit() -> str:
    """Return a few letters that are the same on two machines whose coursekit, exercises included, is the same."""
    package, digest = Path(coursekit.__file__).parent, hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]
