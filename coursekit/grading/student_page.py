"""What grading leaves behind for people: a table of grades, and a page for each student."""

import html
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, tzinfo
from functools import cache
from pathlib import Path

from nbconvert.filters import markdown2html
from nbformat import NotebookNode

from coursekit.basics.cards import card, plural, prose
from coursekit.basics.html_page import html_page
from coursekit.basics.readers_language import spoken, told
from coursekit.basics.tables import write_table
from coursekit.grading.book_marks import Mark, Marks
from coursekit.grading.comments import as_html
from coursekit.grading.gradebook import NO_RESPONSE
from coursekit.judging.exercise import Quiz, UnknownName, load
from coursekit.judging.result import COLOURS, WORDS, Result

HOW = (
    "How this was graded: your cells ran from top to bottom in a fresh Python, and each check called your code from outside, "
    "with other inputs than in your notebook; “Tried” shows them. The same checks answer at once in your own notebook: change "
    "your code, run it, and run the check below it."
)
COLUMNS = [  # of grades.csv
    *("student", "assignment", "notebook", "outcome", "score", "max_score", "penalty", "to_grade", "reason", "seconds")
]
OWN_TEST = "Your instructor wrote this test. It ran inside your program, which can change its outcome; coursekit’s checks run outside."
UNGRADED, WRONG = "Not graded", "What went wrong, or had to be fixed"
LATE, BY_HAND = ", after {number} less for being late", "By hand: {points}; the check gave {number}."
WAITS, WAITING = ", and {answers} waiting for a person to grade", "waiting for a person to grade it"
GRADED, DUE, HANDED_IN = "graded on {moment}", "due on {moment}", "handed in on {moment}"
MOMENT = "{date} at {time}"
UNJUDGED = "It counts as 0 points until your instructor has looked at it."
AGAIN = "Save the notebook in Jupyter, check that it opens there, and hand in that file under its own name"
CODE, LINES = 20_000, 300  # characters and lines of an answer that a page shows
NOT_WRITTEN = "You handed in no answer to it."  # what a notebook says instead is about its cells
ENDED = "a cell ended with"  # begins the note on an error
NEAR = 100  # code cells before a test among which its answer is looked for
_FIELDS = {field.name for field in fields(Result)}
_LINE = re.compile(r"line (\d+) of the cell(?: with `(\w+)`)?")


def page_of(folder: Path, line: dict) -> Path:
    """Return where the page of an outcome lies in a course."""
    return folder / "reports" / line["student"] / line["assignment"] / f"{line['notebook']}.html"


def write_page(
    path: Path,
    line: dict,
    notebook: NotebookNode | None,
    marks: Marks | None,
    zone: tzinfo | None = None,
    name: str = "",
) -> None:
    """Write the page that a student reads: for each exercise what was tried, what came back, points, comments and code.

    `line` is the outcome's line in results.jsonl, `notebook` what ran, `marks` what the gradebook says; `zone` is
    the class's, of all times on the page; `name` is the student's on the roster.
    """
    results = {name: _result(each) for name, each in line["results"].items()}
    cells = notebook.cells if notebook else []
    by_hand = {name: mark for name, mark in marks.cells.items() if name not in results} if marks else {}
    graded = line["outcome"] == "graded"
    cards = [_card(name, result, cells, marks) for name, result in results.items()]
    cards += [_card_by_hand(name, mark, cells, marks) for name, mark in by_hand.items() if graded and marks]
    title = _heading(cells) or line["notebook"]
    student = f"{name} ({line['student']})" if name else line["student"]
    score = _score(line, marks) if graded else told(UNGRADED)
    bar = outcome_bar(Counter(result.status for result in results.values())) if graded and results else ""
    unsaid = _unsaid(line.get("notes", []), results)
    notes = _notes(unsaid, WRONG) if graded else _notes([line["reason"], AGAIN])
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="small">{html.escape(student)} · {html.escape(_dates(line, marks, zone))}</p>',
        f'<div class="score"><b>{score}</b>{bar}</div>',
        *(notes, *cards, f'<p class="small">{told(HOW) if graded else ""}</p>'),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_page(title, "\n".join(parts), "student", spoken()), encoding="utf-8")


def _result(kept: dict) -> Result:
    return Result(**{name: value for name, value in kept.items() if name in _FIELDS})


def _heading(cells: list[NotebookNode]) -> str:
    """Return the notebook's own first heading."""
    lines = [line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    return next((line[2:].strip()[:200] for line in lines if line.startswith("# ")), "")


def _score(line: dict, marks: Marks | None) -> str:
    """Return the points, and what they do not show: a penalty, and what a person has still to grade."""
    if marks is None:
        return of_points(f"{line['score']:g}", line["max_score"])
    late = told(LATE).format(number=number(marks.penalty)) if marks.penalty else ""
    waits = told(WAITS).format(answers=told(plural(marks.to_grade, "answer"))) if marks.to_grade else ""
    return of_points(number(marks.score), number(marks.possible)) + late + waits


def of_points(score: int | float | str, possible: int | float) -> str:
    """Return how many points of those that were possible."""
    return told(f"{score} of {plural(possible, 'point')}")


def outcome_bar(statuses: Counter[str]) -> str:
    """Return how many ended in each way, as a bar in the colors of results with its words below: `3 passed, 1 wrong`."""
    there = [(status, words) for status, words in WORDS.items() if statuses[status]]
    pieces = "".join(f"<i class={status} style='flex:{statuses[status]}'></i>" for status, _ in there)
    said = ", ".join(f"{statuses[status]} {told(words)}" for status, words in there)
    return f"<div class=bar aria-hidden=true>{pieces}</div><span class=small>{said}</span>"


def _dates(line: dict, marks: Marks | None, zone: tzinfo | None) -> str:
    """Return when it was due and handed in, where that is known, and when it was graded, by the clock of the class."""
    when = datetime.strptime(line["when"], "%Y-%m-%dT%H:%M:%S%z")
    graded = told(GRADED).format(moment=_moment(when, zone) + (f" ({zone})" if zone else ""))
    if not (marks and marks.handed_in):
        return graded
    due = [told(DUE).format(moment=_moment(marks.due.replace(tzinfo=UTC), zone))] if marks.due else []
    handed_in = told(HANDED_IN).format(moment=_moment(marks.handed_in.replace(tzinfo=UTC), zone))
    return " · ".join([*due, handed_in, graded])


def _moment(when: datetime, zone: tzinfo | None) -> str:
    return moment_in_words(when.astimezone(zone))


def moment_in_words(moment: datetime) -> str:
    """Return a time as the pages show it."""
    return told(MOMENT).format(date=f"{moment:%Y-%m-%d}", time=f"{moment:%H:%M}")


def _unsaid(notes: list[str], results: Mapping[str, Result]) -> list[str]:
    """Return the notes without the errors that an exercise's own card names."""
    named = [each.values["error"] for each in results.values() if each.message_id in ("cell-failed", "cell-no-python")]
    errors = {note: note.partition(": ")[2].rpartition(" (the cell")[0] for note in notes if note.startswith(ENDED)}
    return [note for note in notes if not any(errors.get(note) and errors[note] in message for message in named)]


def _notes(notes: list[str], title: str = "This could not be graded") -> str:
    end = "。" if spoken() == "zh" else "."
    said = map(told_reason, notes)
    lines = "".join(f"<li>{prose(note[:1].upper() + note[1:])}{end}</li>" for note in said)
    return card(told(title), f"<ul>{lines}</ul>", COLOURS["crashed"]) if notes else ""


def told_reason(text: str) -> str:
    """Return a note or a reason as people read it: whole, or each of several that are joined."""
    whole = told(text)
    return whole if whole != text else "; ".join(map(told, text.split("; ")))


def _card(name: str, result: Result, cells: list[NotebookNode], marks: Marks | None) -> str:
    """Return what came of one test cell: the judge's words, what a person says, the question, the student's code."""
    mark = marks.cells.get(name) if marks else None
    earned = number(mark.points) if mark else result.earned
    shown = replace(result, message=NOT_WRITTEN, message_id="") if result.message_id == "todo" else result
    body = _question(result) + shown.body()
    if result.status == "unjudged" and not (mark and mark.by_hand):
        body += f"<div class='said'>{told(UNJUDGED)}</div>"
    if mark and mark.by_hand:
        given = told(BY_HAND).format(points=told(plural(earned, "point")), number=result.earned)
        body += f"<div class='said'>{given}</div>"
    answer = _answer_to(name, result, cells)
    chosen = result.message_id.startswith("quiz-")  # the question shows what
    body += _comment(marks, f"answer_{name}", _grade_id(answer)) + ("" if chosen else _code_of(answer, result))
    box = card(result.headline_with(earned), body, COLOURS[result.status])
    more = f"\n<p class='small'>{told(OWN_TEST)}</p>" if result.kind == "test" else ""
    seconds = f"<div class='small'>{result.seconds:.1f} s</div>" if result.seconds >= 0.1 else ""
    return f"<div class='result'>{box}{seconds}</div>{more}"


def _card_by_hand(name: str, mark: Mark, cells: list[NotebookNode], marks: Marks) -> str:
    """Return what a person gave for an answer that no test judges."""
    answer = next((cell for cell in cells if _grade_id(cell) == name), None)
    points = of_points(number(mark.points), number(mark.possible)) + told(", graded by hand")
    title = f"{name}: {told(WAITING) if mark.waits else points}"
    body = _comment(marks, name) + _code_of(answer, None)
    return f"<div class='result'>{card(title, body, COLOURS['todo'])}</div>"


def _question(result: Result) -> str:
    """Return what a quiz asked and its options, the chosen one marked."""
    try:
        item = load(result.chapter).get(result.name) if result.kind == "quiz" else None
    except UnknownName:
        item = None
    if not isinstance(item, Quiz):
        return ""
    chosen = result.message_id.removeprefix("quiz-")
    lines = [
        f"<li{' class=here' if letter == chosen else ''}>{letter}) {_of_markdown(told(shown, result.chapter))}</li>"
        for letter, (shown, _) in item.options.items()
    ]
    return f"<div>{_of_markdown(told(item.question, result.chapter))}</div><ul>{''.join(lines)}</ul>"


@cache
def _of_markdown(text: str) -> str:
    """Return our own text as HTML, without the paragraph around it."""
    return str(markdown2html(text)).strip().removeprefix("<p>").removesuffix("</p>")


def _answer_to(name: str, result: Result, cells: list[NotebookNode]) -> NotebookNode | None:
    """Return the cell with a student's answer: by its id, else the last before the test that defines the name or may be changed."""
    by_id = next((cell for cell in cells if _grade_id(cell) == f"answer_{name}"), None)
    if by_id is not None:
        return by_id
    place = next((place for place, cell in enumerate(cells) if _grade_id(cell) == name), 0)
    before = [cell for cell in reversed(cells[:place]) if cell.cell_type == "code"][:NEAR]
    defines = re.compile(
        rf"^((async )?def|class) +{re.escape(result.name)}\b|^{re.escape(result.name)} *=", re.MULTILINE
    )
    defining = (cell for cell in before if defines.search(cell.source[:CODE]))
    return next(defining, next((cell for cell in before if _meta(cell).get("solution")), None))


def _comment(marks: Marks | None, *names: str) -> str:
    """Return what the instructor wrote on an answer, which has one of these names in the gradebook."""
    comments = marks.comments if marks else {}
    said = [comments[name] for name in names if comments.get(name, NO_RESPONSE) != NO_RESPONSE]
    return f"<div class='said'>{as_html(said[0])}</div>" if said else ""


def _code_of(cell: NotebookNode | None, result: Result | None) -> str:
    """Return the student's answer, its lines numbered, with the one that the message names marked."""
    if cell is None or not cell.source.strip():
        return ""
    named = _LINE.match(result.where) if result else None
    is_here = named and (not named[2] or re.search(rf"\b(def|class) +{named[2]}\b", cell.source[:CODE]))
    here = int(named[1]) if named and is_here else 0
    lines = cell.source[:CODE].splitlines()[:LINES]
    spans = [
        f"<span{' class=here' if place == here else ''}>{html.escape(line)}\n</span>"
        for place, line in enumerate(lines, 1)
    ]
    more = "" if len(cell.source.splitlines()) <= len(lines) and len(cell.source) <= CODE else f"\n… {told('and more')}"
    is_open = " open" if result is None or result.status in ("wrong", "crashed") else ""
    return f"<details{is_open}><summary class='small'>{told('Your answer')}</summary><pre class='code'>{''.join(spans)}{more}</pre></details>"


def _grade_id(cell: NotebookNode | None) -> str:
    return str(_meta(cell).get("grade_id", "")) if cell is not None else ""


def _meta(cell: NotebookNode) -> dict:
    meta: dict = cell.metadata.get("nbgrader", {})
    return meta


def number(value: float) -> int | float:
    """Return a number of points as people write it: 2, 2.5."""
    return int(value) if float(value).is_integer() else round(value, 6)


def write_grades(path: Path, lines: list[dict], marks: Mapping[str, Marks]) -> None:
    """Write the table of all outcomes, one row for each notebook, with the points that the gradebook holds."""
    ordered = sorted(lines, key=lambda line: (line["assignment"], line["student"], line["notebook"]))
    rows = [line | _points(marks.get(line["key"])) for line in ordered]
    write_table(path, [COLUMNS, *([row.get(name) for name in COLUMNS] for row in rows)])


def _points(marks: Marks | None) -> dict:
    """Return what the table says of a notebook that the gradebook knows."""
    if marks is None:
        return {"penalty": 0, "to_grade": 0}
    return {"score": number(marks.score), "penalty": number(marks.penalty), "to_grade": marks.to_grade}
