"""Whose fault an error is: one that has to do with one submission costs that submission alone, one of this machine stops the run."""

import errno

from sqlalchemy.exc import DataError, SQLAlchemyError

from coursekit.grading.gradebook import Book
from coursekit.grading.outcome import grader_failed
from coursekit.grading.submission import Submission
from coursekit.grading.submission_grader import Graded

FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
MACHINES = (*FULL, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)  # errors that no name of a student's causes


def try_to_record(item: Submission, graded: Graded | None, book: Book) -> str:
    """Record scores in the gradebook; return the reason where this submission's cannot be, "" where they are.

    Raises what is this machine's fault: the run stops, and can be continued.
    """
    try:
        book.record(item, graded)
    except DataError as error:  # a name that is longer than this database takes, for example
        return f"the gradebook does not take it ({error.orig})"
    except Exception as error:
        return students_alone(error)
    return ""


def students_alone(error: Exception) -> str:
    """Return the reason where an error has to do with one submission, as with its name; raises it where the machine is at fault."""
    if isinstance(error, SQLAlchemyError) or (isinstance(error, OSError) and error.errno in MACHINES):
        raise error
    if isinstance(error, OSError):
        return f"what came of it cannot be written ({error.strerror})"
    return grader_failed(error)
