"""What grading leaves behind: a line for every outcome, a table of grades, and a page for each student."""

import csv
import html
import json
import os
from collections.abc import Iterator
from pathlib import Path

from coursekit.grading.grade import Graded
from coursekit.grading.submission import Submission
from coursekit.result import Result, plural

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }}
h1 {{ font-size: 1.4rem }} .small {{ opacity: .7; font-size: .9rem }} code {{ overflow-wrap: anywhere }}
</style>
<h1>{title}</h1>
<p><b>{score} of {points}</b> · graded in {seconds:.0f} s</p>
{notes}
{results}
"""


class Journal:
    """`results.jsonl`: one line for each outcome, written in full or not at all. It is what a resumed run trusts."""

    def __init__(self, path: Path):
        self.path = path

    def lines(self) -> Iterator[dict]:
        """Yield the recorded outcomes; a line that was cut off by a crash is not one."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def add(self, record: dict) -> None:
        """Append an outcome, and make sure that it is on the disk."""
        with self.path.open("a+b") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # the line before was cut off by a crash
                    file.write(b"\n")
            file.write(json.dumps(record, allow_nan=False, default=str).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def write_feedback(path: Path, submission: Submission, graded: Graded | None, reason: str) -> None:
    """Write the page that a student reads: for each exercise what was tried, what came back, points and time."""
    results = list(graded.results.values()) if graded else []
    notes = [*(graded.notes if graded else []), *([f"This could not be graded: {reason}."] if reason else [])]
    page = PAGE.format(
        title=html.escape(f"{submission.student}: {submission.assignment}, {submission.notebook}"),
        score=f"{graded.score if graded else 0:g}",
        points=plural(sum(result.points for result in results), "point"),
        seconds=graded.seconds if graded else 0,
        notes="".join(f"<p>{html.escape(note)}</p>" for note in notes),
        results="\n".join(_card(result) for result in results),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _card(result: Result) -> str:
    origin = "" if result.kind != "test" else " · a test of your instructor, run in your own process"
    return f"{result._repr_html_()}<div class='small'>{result.seconds:.1f} s{origin}</div>"


def write_grades(path: Path, records: list[dict]) -> None:
    """Write the table of all outcomes, one row for each notebook."""
    columns = ["student", "assignment", "notebook", "outcome", "score", "max_score", "reason", "seconds"]
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        for record in sorted(records, key=lambda record: (record["assignment"], record["student"], record["notebook"])):
            table.writerow({name: _cell(value) for name, value in record.items()})
    os.replace(partial, path)


def _cell(value: object) -> object:
    """Return what a spreadsheet shows as it stands: a text that begins like a formula would be computed there."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
