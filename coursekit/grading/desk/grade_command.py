"""What `coursekit grade` shows: how far it is, how fast, and what came of it."""

import os
import shlex
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy.exc import SQLAlchemyError

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError, chapter_names
from coursekit.basics.paths import ROOT
from coursekit.grading import check_versions
from coursekit.grading.class_run import Run
from coursekit.grading.class_settings import settings_of
from coursekit.grading.gradebook import out_of_use
from coursekit.grading.outcome import Options
from coursekit.sandbox.nursery import Nursery, NurseryFailed

OF_A_COURSE = ("nbgrader_config.py", "class.toml", "gradebook.db")
CONTINUES = "Nothing is lost: run the same command again (without --again) to resume."


def grade_class(submissions: Path, options: Options, nursery: Nursery | None = None) -> None:
    """Grade all submissions of a course folder and say what came of it; raises CommandError."""
    if not submissions.exists():
        raise CommandError(f"There is no {submissions}. Give the submitted/ folder of your course, or one notebook.")
    if (submissions / "submitted").is_dir() and any((submissions / name).is_file() for name in OF_A_COURSE):
        raise CommandError(
            f"{submissions} is a course's folder. The hand-ins are inside it. Run: coursekit grade {submissions / 'submitted'}"
        )
    console = Console(stderr=True)
    if not options.sandbox:
        console.print(
            "[red]Without a sandbox, a submission can read and delete whatever you can.[/red] Grade only submissions that you trust."
        )
    start = time.monotonic()
    run = Run(submissions, options, nursery)
    for sentence in run.unheard():
        console.print(sentence, markup=False)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("grading", total=None)
        bad = new = 0

        def report(line: dict, done: int, total: int) -> None:
            nonlocal bad, new
            new = done
            bad += line["outcome"] != "graded"
            rate = 60 * done / (time.monotonic() - start)
            progress.update(bar, completed=done, total=total, description=f"{rate:.0f} per minute, {bad} not gradable")

        try:
            lines = run.go(report)
            if not new:
                progress.update(bar, total=0)
        except NurseryFailed as error:
            raise CommandError(f"{error}\n{CONTINUES}") from None
        except SQLAlchemyError as error:
            raise CommandError(f"{out_of_use(error, run.course)}\n{CONTINUES}") from None
        except OSError as error:
            place = error.filename or run.folder
            raise CommandError(f"{place}: {error.strerror or error}. Fix that first. {CONTINUES}") from None
        except KeyboardInterrupt:
            progress.stop()
            console.print(f"Stopped. {CONTINUES}")
            os._exit(130)  # at once: the threads would go on grading
    _summary(console, run, lines, new, time.monotonic() - start)


def _summary(console: Console, run: Run, lines: list[dict], new: int, seconds: float) -> None:
    failed = [line for line in lines if line["outcome"] != "graded"]
    if new < len(lines):
        console.print(f"New in this run: {plural(new, 'notebook')}. Together with those from earlier runs:")
    console.print(f"{len(lines) - len(failed)} graded, {len(failed)} not gradable, in {seconds:.0f} s.")
    for line in failed:
        text = f"  {line['key']}: {line['reason']}"
        console.print("".join(char if char.isprintable() else " " for char in text), markup=False)
    if run.outsiders:
        console.print(
            f"Not on the roster in class.toml: {', '.join(run.outsiders)}. If a name was mistyped, move the contents of its folder to "
            f"{run.submitted}/<the right id>/ and grade again; any points move along.",
            markup=False,
            soft_wrap=True,
        )
    for said in run.moved:
        console.print(said, markup=False, soft_wrap=True)
    graded = {f"{line['student']}/{line['assignment']}" for line in lines}
    for note in (note for folder, note in run.doubts.items() if folder in graded):
        console.print(note, markup=False, soft_wrap=True)
    console.print(
        f"Scores: {run.folder / 'grades.csv'}, {'' if run.alone else 'final.csv, '}and nbgrader's gradebook; pages for students: {run.folder / 'reports'}"
    )
    if not run.alone:
        course = shlex.quote(os.path.relpath(run.folder))
        console.print(
            f"Next: coursekit class {course} shows what was hard; coursekit grades {course} --to moodle --table … (or --to canvas) fills in the platform's table; coursekit give-back {course} --to moodle packs the pages.",
            markup=False,
            soft_wrap=True,
        )


def report_class(course: Path) -> None:
    """Write a course's pages and its table again from nbgrader's gradebook; raises CommandError."""
    run = Run.of(course)
    pages = run.report()
    where = f"{run.folder / 'reports'}, and {run.folder / 'grades.csv'}, from nbgrader's gradebook"
    print("\n".join([f"wrote {plural(pages, 'page')} in {where}", *run.doubts.values()]))


def show_class(course: Path) -> None:
    """Write the class's page; raises CommandError."""
    from coursekit.grading.desk.class_page import write_page_of_class

    run = Run.of(course)
    print(f"wrote {write_page_of_class(run)} (open it in a browser; it names students)")


def release_course(folder: Path) -> None:
    """Make a course and say what comes next; raises CommandError."""
    from coursekit.grading.desk.release import release

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("releasing", total=len(chapter_names()))
        written = release(folder, lambda chapter: progress.update(bar, advance=1, description=chapter))
    print(f"wrote {len(written)} files and folders in {folder}, among them {written[-1].name} for your learners")
    if not check_versions.commit() and (ROOT / ".git").exists():
        print(
            "The checks are not committed yet. If you want to be able to return to them later, commit them and release again."
        )
    print(
        f"Next: hand out {folder}/learners.zip and {folder}/handout.html, and put the students' hand-ins in {folder}/submitted/"
    )
    print(
        f"(coursekit collect does that with a zip from Moodle or Canvas). Then run: coursekit grade {folder}/submitted"
    )
    if not settings_of(folder).due:
        print(
            "The notebooks show no due dates. To show them, put a class.toml with the dates in an empty folder, and release into that folder."
        )
