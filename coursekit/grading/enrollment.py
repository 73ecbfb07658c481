"""What class.toml says, written into nbgrader's gradebook: names, due dates, extensions, and what being late costs since they changed."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from nbgrader.api import Assignment, Gradebook, SubmittedAssignment, SubmittedNotebook
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import or_
from traitlets.config import Config

from coursekit.grading.class_settings import Settings, Student
from coursekit.grading.late_rule import RULES, LateDays


def enrol(gradebook: Gradebook, settings: Settings, config: Config) -> None:
    """Bring a gradebook up to date with class.toml; where there is none, it is left as it is."""
    if not settings.is_there:
        return
    known = {student.id: student for student in gradebook.students}
    for student in settings.students:
        wanted = _columns(student)
        if student.id not in known or any(getattr(known[student.id], name) != value for name, value in wanted.items()):
            gradebook.update_or_create_student(student.id, **wanted)
    for assignment in gradebook.assignments:
        if assignment.name in settings.due:
            assignment.duedate = utc(settings.due[assignment.name])
            for submission in assignment.submissions:
                submission.extension = extension(settings, submission.student_id, assignment.name)
    gradebook.db.commit()
    assess_penalties(gradebook, config)


def extension(settings: Settings, student: str, assignment: str) -> timedelta | None:
    """Return by how much a student may be later than the others."""
    until = settings.extensions.get((student, assignment))
    return utc(until) - utc(settings.due[assignment]) if until else None


def utc(moment: datetime) -> datetime:
    """Return a moment as the gradebook keeps it: in UTC, without a zone."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def assess_penalties(gradebook: Gradebook, config: Config, some: Iterable[SubmittedNotebook] = ()) -> None:
    """Have nbgrader's plug-in say what being late costs, of `some` notebooks or of all that are late or were.

    Times, dates, the rule, or points by hand may have changed. Without a rule in the configuration, it costs nothing.
    """
    judge = AssignLatePenalties(config=config)
    judge.init_plugin()
    rule = judge.plugin_inst
    late = or_(SubmittedAssignment.timestamp > Assignment.duedate, SubmittedNotebook.late_submission_penalty > 0)
    query = gradebook.db.query(SubmittedNotebook).join(SubmittedNotebook.assignment)
    for notebook in some or query.join(SubmittedAssignment.assignment).filter(late):
        handed_in, cost = notebook.assignment, None
        seconds = handed_in.total_seconds_late
        if seconds > 0 and isinstance(rule, LateDays):
            cost = rule.cost(notebook.score, handed_in.duedate, handed_in.timestamp)
        elif seconds > 0 and RULES & set(config):
            cost = rule.late_submission_penalty(handed_in.student_id, notebook.score, seconds)
        notebook.late_submission_penalty = None if cost is None else judge._check_late_penalty(notebook, cost)
    gradebook.db.commit()


def _columns(student: Student) -> dict[str, str | None]:
    """Return a student as nbgrader's columns: the family name is what stands before a comma, else the last word."""
    family, comma, given = student.name.partition(",")
    if not comma:
        given, _, family = student.name.rpartition(" ")
    return {
        "first_name": given.strip() or None,
        "last_name": family.strip() or None,
        "email": student.email or None,
        "lms_user_id": student.canvas or None,
    }
