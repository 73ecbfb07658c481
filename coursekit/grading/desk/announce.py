"""Puts what class.toml says of a chapter into its notebook: `begin("ch01_tasks", due="2026-10-19T18:00:00+02:00")`."""

import json
import re

import nbformat

from coursekit.basics.cells import content_digest
from coursekit.grading.class_settings import HELP, Settings

_BEGIN = re.compile(r'\bbegin\("(\w+)"\)')
_QUIZ = re.compile(r"^\*\*Quiz · \d+ points?\.")
CLASS_TOML = """\
# The class. Every entry is optional; docs/class.md explains them.
# zone = "Europe/Berlin"       # of the dates below
# students = "roster.csv"      # beside this file, with the columns id,name,email,group,canvas
# language = "de"              # of your pages, and of those that your students get back
quizzes = false                # true: quizzes count, though their keys are on every learner's machine
help = ["hints", "puzzles", "solutions"]  # what learners may open

# [due]
# ch01_tasks = 2026-10-19T18:00:00

# [late]
# percent_a_day = 10           # of the score, for each day begun
# grace_hours = 1
# days = 5                     # after these, nothing is left

# [extensions.ada]
# ch01_tasks = 2026-10-22T18:00:00
"""


def announced(notebook: str, settings: Settings) -> str:
    """Return the text of a notebook whose `begin` names the due date of its chapter and the help that is closed.

    Where quizzes earn nothing, `begin` and the line above each quiz say so. A cell that the builder named after its content is
    named after the new one, so that `coursekit update` knows it as ours.
    """
    document = nbformat.reads(notebook, as_version=4)
    changed = False
    for cell in document.cells:
        if cell.cell_type == "code":
            source = _BEGIN.sub(lambda call: _call(call[1], settings), cell.source)
        else:
            source = cell.source if settings.quizzes else _QUIZ.sub("**Quiz · not counted.", cell.source)
        if source != cell.source:
            digest, changed = content_digest(cell), True
            cell.source = source
            cell.id = cell.id.replace(f"{digest}-", f"{content_digest(cell)}-")
    return nbformat.writes(document) + "\n" if changed else notebook


def _call(chapter: str, settings: Settings) -> str:
    due = f', due="{settings.due[chapter].isoformat()}"' if chapter in settings.due else ""
    closed = [name for name in HELP if name not in settings.help]
    quizzes = "" if settings.quizzes else ", quizzes=False"
    return f'begin("{chapter}"{due}{f", closed={json.dumps(closed)}" if closed else ""}{quizzes})'
