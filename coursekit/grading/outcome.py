"""How a class is to be graded, and what comes of one submission: its outcome, or whose fault it is that there is none."""

import errno
import time
from dataclasses import dataclass, field

from sqlalchemy.exc import DataError, SQLAlchemyError

from coursekit.grading.gradebook import Book
from coursekit.grading.grading_plan import Master, points_of
from coursekit.grading.submission import NotGradable, Submission
from coursekit.grading.submission_grader import Graded
from coursekit.sandbox.limits import Limits

MOVED = "this notebook was moved to {student}"
# this machine's errors, which no name of a student's causes
MACHINES = [errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE]
MACHINES += [errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO]


@dataclass(frozen=True)
class Options:
    """How a class is graded."""

    jobs: int = 2
    seed: int | None = None
    only: tuple[str, ...] = ()
    again: bool = False
    all_cells: bool = False
    sandbox: bool = True
    address: str = ""
    limits: Limits = field(default_factory=Limits)
    configured: bool = False  # whether the course's configuration may say how long a cell takes


@dataclass
class Outcome:
    """What came of one submission: graded, or not gradable with the reason."""

    submission: Submission
    graded: Graded | None
    reason: str = ""

    def why(self) -> str:
        """Return what is said of it: the reason, or what had to be put right."""
        return self.reason or "; ".join(self.graded.notes if self.graded else [])

    def line(self, master: Master | None) -> dict:
        """Return the line for results.jsonl."""
        tests = master.tests().values() if master else []
        maximum = sum(points_of(cell) for cell in tests)
        return {
            "student": self.submission.student,
            "assignment": self.submission.assignment,
            "notebook": self.submission.notebook,
            "digest": self.submission.digest,
            "outcome": "not gradable" if self.graded is None else "graded",
            "reason": self.why(),
            "notes": self.graded.notes if self.graded else [],
            "score": self.graded.score if self.graded else 0,
            "max_score": maximum,
            "seconds": round(self.graded.seconds, 3) if self.graded else 0,
            "cpu_seconds": round(self.graded.cpu_seconds, 3) if self.graded else 0,
            "peak_mb": round(self.graded.peak_mb) if self.graded else 0,
            "results": {name: result.as_dict() for name, result in self.graded.results.items()} if self.graded else {},
            "when": now(),
        }


def now() -> str:
    """Return the time as results.jsonl holds it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def master_of(item: Submission, masters: dict[tuple[str, str], Master]) -> Master:
    """Return the instructor's version; raises NotGradable where there is none or nothing was handed in."""
    if item.problem:
        raise NotGradable(item.problem)
    if (item.assignment, item.notebook) not in masters:
        raise NotGradable(f"the assignment has no notebook named {item.notebook}.ipynb: was it renamed?")
    return masters[item.assignment, item.notebook]


def grader_failed(error: BaseException) -> str:
    """Return the reason where the fault is the grader's own."""
    return f"the grader failed; please report this ({type(error).__name__}: {error})"


def try_to_record(item: Submission, graded: Graded | None, book: Book) -> str:
    """Record scores in the gradebook; return the reason where this submission's cannot be, "" where they are.

    Raises what is this machine's fault: the run stops, and can be continued.
    """
    try:
        book.record(item, graded)
    except DataError as error:  # a name that is longer than this database takes, for example
        return f"the gradebook rejects it ({error.orig})"
    except Exception as error:
        return students_alone(error)
    return ""


def students_alone(error: Exception) -> str:
    """Return the reason where an error has to do with one submission, as with its name; raises it where the machine is at fault."""
    if isinstance(error, SQLAlchemyError) or (isinstance(error, OSError) and error.errno in MACHINES):
        raise error
    if isinstance(error, OSError):
        return f"its result cannot be written ({error.strerror})"
    return grader_failed(error)
