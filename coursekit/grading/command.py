"""What `coursekit grade` shows: how far it is, how fast, and what came of it."""

import os
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy.exc import SQLAlchemyError

from coursekit.course import CommandError
from coursekit.grading.outcome import Options
from coursekit.grading.run import Run
from coursekit.sandbox.nursery import NurseryFailed, available

CONTINUES = "What is graded is kept: the same command continues (without --again)."


def grade_class(submissions: Path, options: Options) -> None:
    """Grade all submissions of a course folder and say what came of it; raises CommandError."""
    if not submissions.exists():
        raise CommandError(f"There is no {submissions}. Name the folder submitted/ of your course, or one notebook.")
    if options.sandbox and not options.address and (reason := available()):  # the nodes of a cluster say so themselves
        raise CommandError(
            f"No sandbox can be made here: {reason}. Grade on Linux; or, if you trust every submission, add --no-sandbox."
        )
    console = Console(stderr=True)
    if not options.sandbox:
        console.print(
            "[red]Without a sandbox, a submission can read and delete what you can.[/red] Grade only what you trust."
        )
    start = time.monotonic()
    run = Run(submissions, options)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("grading", total=None)
        bad = 0

        def report(record: dict, done: int, total: int) -> None:
            nonlocal bad
            bad += record["outcome"] != "graded"
            rate = 60 * done / (time.monotonic() - start)
            progress.update(bar, completed=done, total=total, description=f"{rate:.0f} a minute, {bad} not gradable")

        try:
            records = run.go(report)
        except (NurseryFailed, SQLAlchemyError) as error:  # the latter: another program holds the gradebook
            raise CommandError(f"{error}\n{CONTINUES}") from None
        except OSError as error:
            place = error.filename or run.folder
            raise CommandError(
                f"{place}: {error.strerror or error}. Put that right; then continue. {CONTINUES}"
            ) from None
        except KeyboardInterrupt:
            progress.stop()
            console.print(f"Stopped. {CONTINUES}")
            os._exit(130)  # at once: the threads would go on grading
    _summary(console, run, records, time.monotonic() - start)


def _summary(console: Console, run: Run, records: list[dict], seconds: float) -> None:
    failed = [record for record in records if record["outcome"] != "graded"]
    console.print(f"{len(records) - len(failed)} graded, {len(failed)} not gradable, in {seconds:.0f} s.")
    for record in failed:
        line = f"  {record['key']}: {record['reason']}"
        console.print("".join(char if char.isprintable() else " " for char in line), markup=False)
    console.print(
        f"Scores: {run.folder / 'grades.csv'} and nbgrader's gradebook; pages for students: {run.folder / 'reports'}"
    )
