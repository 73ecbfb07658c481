"""What grading leaves behind for people: a table of grades, and a page for each student."""

import csv
import html
import os
from collections import Counter
from pathlib import Path

from coursekit.grading.grade import Graded
from coursekit.grading.submission import Submission
from coursekit.result import COLOURS, Result, card, plural, prose

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
h1 {{ font-size: 1.4rem; margin-bottom: 0 }} .score {{ font-size: 1.2rem; margin: 0 0 1rem }}
.small {{ opacity: .7; font-size: .9rem }} .result {{ position: relative; margin: .6rem 0 }}
.result > .small {{ position: absolute; top: .55rem; right: .8rem }} code {{ overflow-wrap: anywhere }}
</style>
<h1>{title}</h1>
<p class="score"><b>{score}</b> <span class="small">· {student} · {counts}</span></p>
{notes}
{results}
<p class="small">{how}</p>
"""
HOW = (
    "How this was graded: your cells ran from top to bottom in a fresh Python, and each check called your code from outside, "
    "with other inputs than in your notebook; “Tried” shows them. In your own notebook the same checks answer at once: change "
    "your code, run it, and run the check below it."
)
COLUMNS = ["student", "assignment", "notebook", "outcome", "score", "max_score", "reason", "seconds"]  # of grades.csv
OWN_TEST = "This test is your instructor’s own. It ran inside your program, which can change its outcome; coursekit’s checks run outside."
AGAIN = "Save the notebook in Jupyter, check that it opens there, and hand in that file under its own name"


def write_page(path: Path, submission: Submission, graded: Graded | None, reason: str) -> None:
    """Write the page that a student reads: for each exercise what was tried, what came back, points and time."""
    results = list(graded.results.values()) if graded else []
    page = PAGE.format(
        title=html.escape(_heading(graded) or submission.notebook),
        student=html.escape(submission.student),
        score=f"{graded.score:g} of {plural(sum(result.points for result in results), 'point')}"
        if graded
        else "Not graded",
        counts=_counts(results) if graded else html.escape(submission.assignment),
        notes=_notes(graded.notes, "What had to be put right, or went wrong") if graded else _notes([reason, AGAIN]),
        results="\n".join(_card(result) for result in results),
        how=HOW if graded else "",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _heading(graded: Graded | None) -> str:
    """Return the notebook's own first heading."""
    cells = graded.notebook.cells if graded and graded.notebook else []
    lines = [line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    return next((line[2:].strip()[:200] for line in lines if line.startswith("# ")), "")


def _counts(results: list[Result]) -> str:
    """Return how many exercises and quizzes ended in which way: `3 passed, 1 wrong`."""
    counts = Counter({"todo": "not attempted"}.get(result.status, result.status) for result in results)
    return ", ".join(f"{number} {status}" for status, number in counts.items())


def _notes(notes: list[str], title: str = "This could not be graded") -> str:
    lines = "".join(f"<li>{prose(note[:1].upper() + note[1:])}.</li>" for note in notes)
    return card(title, f"<ul style='margin:.3rem 0'>{lines}</ul>", COLOURS["crashed"]) if notes else ""


def _card(result: Result) -> str:
    shown = f"<div class='result'>{result._repr_html_()}<div class='small'>{result.seconds:.1f} s</div></div>"
    return shown if result.kind != "test" else f"{shown}\n<p class='small'>{OWN_TEST}</p>"


def write_grades(path: Path, records: list[dict]) -> None:
    """Write the table of all outcomes, one row for each notebook."""
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        table.writeheader()
        for record in sorted(records, key=lambda record: (record["assignment"], record["student"], record["notebook"])):
            table.writerow({name: _cell(value) for name, value in record.items()})
    os.replace(partial, path)


def _cell(value: object) -> object:
    """Return what a spreadsheet shows as it stands: a text that begins like a formula would be computed there."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
