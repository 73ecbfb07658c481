"""The instructor's notebooks of a course: the truth about what is graded, looked at before anything is."""

from coursekit.basics.errors import CommandError
from coursekit.grading.grading_plan import Master
from coursekit.grading.nbgrader_settings import Course, solutions
from coursekit.grading.submission import Submission

NO_CHAPTER = ' And the notebook begins no chapter: say which in a cell before them, as `begin("ch01_tasks")`.'
Masters = dict[tuple[str, str], Master]  # by assignment and name


def masters_of(course: Course | None) -> Masters:
    """Return the instructor's notebooks by assignment and name: the course's, and this project's for a notebook by itself.

    Raises CommandError where a test cell mixes a check with other code, or checks without beginning a chapter.
    """
    paths = course.notebooks() if course else solutions()
    quizzes = not course or not course.settings.is_there or course.settings.quizzes
    masters = {key: Master.of(path, quizzes) for key, path in paths.items()}
    for key, master in masters.items():
        if mixed := master.mixed():
            raise CommandError(
                f'{paths[key]}: the test cells {", ".join(mixed)} must be a `check("name", name)` or `quiz("name", name)` '
                "and nothing else, because they are judged outside the submission. Move other code to a cell of its own."
                f"{'' if master.chapter else NO_CHAPTER}"
            )
    return masters


def notebooks_of(masters: Masters) -> dict[str, set[str]]:
    """Return the notebooks of each assignment that have to be handed in."""
    graded = [key for key, master in masters.items() if master.is_graded()]
    return {assignment: {name for owner, name in graded if owner == assignment} for assignment, _ in masters}


def refuse_unknown(masters: Masters, assignments: set[str]) -> None:
    """Raise CommandError where a check in an assignment's notebooks cannot be judged."""
    for (assignment, name), master in masters.items():
        if assignment in assignments and (reason := master.unknown()):
            raise CommandError(f"{assignment}/{name}.ipynb: {reason} Fix that in source/, then grade again.")


def chapters_of(found: list[Submission], masters: Masters) -> set[str]:
    """Return the chapters whose checks judge some submissions."""
    assignments = {item.assignment for item in found}
    return {master.chapter for (owner, _), master in masters.items() if owner in assignments and master.chapter}
