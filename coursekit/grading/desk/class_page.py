"""The class's page, for the instructor: each exercise's outcomes, the hardest, the most common messages, who handed in nothing."""

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

from coursekit.basics.cards import plural, prose
from coursekit.basics.errors import CommandError
from coursekit.basics.html_page import html_page
from coursekit.basics.journal import Journal
from coursekit.grading.book_marks import Marks, marks_of
from coursekit.grading.class_run import NOTHING, Run
from coursekit.grading.comments import Comments, as_html, load
from coursekit.grading.student_page import number
from coursekit.judging.result import COLOURS, WORDS

CASE = {"Tried": "tried", "Came back": "got", "Look at": "where"}
HARDEST = 5
MESSAGES = 8  # of a chapter, the commonest
NOT_OF_THE_ANSWER = ("not-reached", "stopped", "todo")  # ids that say nothing of the answer itself


@dataclass
class Item:
    """What came of one exercise, quiz or test in a class."""

    name: str
    assignment: str
    possible: float = 0
    statuses: Counter[str] = field(default_factory=Counter)
    points: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    said: dict[str, list[dict]] = field(default_factory=dict)  # results by the id of their message
    # results of a check that itself failed, without a person's points
    unjudged: list[dict] = field(default_factory=list)

    @property
    def fraction(self) -> float:
        """Return the fraction of the points that the class has earned."""
        return sum(self.points) / (self.possible * len(self.points)) if self.possible and self.points else 1.0


@dataclass
class Part:
    """What came of one notebook of the course."""

    assignment: str
    notebook: str
    items: dict[str, Item] = field(default_factory=dict)
    students: set[str] = field(default_factory=set)  # whose work was graded
    ungradable: dict[str, str] = field(default_factory=dict)  # reasons by student
    possible: float = 0
    points: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    versions: Counter[str] = field(default_factory=Counter)  # how many each student handed in


def write_page_of_class(run: Run) -> Path:
    """Write class.html, one file that needs no server, into a course's folder and return where it is.

    Raises CommandError where nothing has been graded.
    """
    run.refuse_foreign()
    history = _history(run)
    comments = load(run.folder)
    with run.book() as book:
        names = {one.id: " ".join(filter(None, (one.first_name, one.last_name))) for one in book.gradebook.students}
        parts = parts_of(history, marks_of(book.gradebook))
    students = {line["student"]: "" for line in history if line["student"]} | names
    items = [item for part in parts for item in part.items.values()]
    hardest = sorted((item for item in items if item.fraction < 1), key=lambda item: item.fraction)[:HARDEST]
    unjudged = [item for item in items if item.unjudged]
    title = f"The class in {run.folder.name}"
    counts = f"{plural(len(students), 'student')}, {plural(len(parts), 'notebook')}"
    when = f"{datetime.now(run.course.settings.zone):%Y-%m-%d at %H:%M}"
    key = "".join(f"<span style='background:{COLOURS[status]}'></span>{words}" for status, words in WORDS.items())
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="small">{counts} · {when} · points from nbgrader’s gradebook</p>',
        f'<p class="key small">{key}</p>',
        *([_unjudged(unjudged)] if unjudged else []),
        *([_hardest(hardest)] if hardest else []),
        *(_part(part, students, comments) for part in parts),
    ]
    path = run.folder / "class.html"
    path.write_text(html_page(title, "\n".join(body), "class"), encoding="utf-8")
    return path


def _history(run: Run) -> list[dict]:
    """Return what came of all that was ever graded in a course, from the first run to the last; raises CommandError."""
    numbers = sorted(int(path.stem[8:]) for path in run.folder.glob("results-*.jsonl") if path.stem[8:].isdigit())
    names = [*(f"results-{number}.jsonl" for number in numbers), "results.jsonl"]
    history = [line for name in names for line in Journal(run.folder / name).lines()]
    if not history:
        raise CommandError(NOTHING.format(folder=run.folder, submitted=run.submitted))
    last = {line["key"]: line["outcome"] for line in history}
    return [line for line in history if last[line["key"]] != "moved"]  # to the student whose it is


def parts_of(history: Iterable[dict], marks: Mapping[str, Marks]) -> list[Part]:
    """Return a class's outcomes by notebook, from all that results.jsonl ever held; the last of a submission counts."""
    last: dict[str, dict] = {}
    versions: dict[str, set[str]] = {}
    for line in history:
        last[line["key"]] = line
        versions.setdefault(line["key"], set()).add(line["digest"])
    found: dict[tuple[str, str], Part] = {}
    for key, line in sorted(last.items()):
        place = (line["assignment"], line["notebook"])
        if line["outcome"] == "graded":
            part = found.setdefault(place, Part(*place))
            part.versions[line["student"]] = len(versions[key])
            _add(part, line, marks.get(key, Marks()))
        elif line["max_score"]:  # a notebook of the course
            part = found.setdefault(place, Part(*place))
            part.ungradable[line["student"]] = line["reason"]
    return [found[place] for place in sorted(found)]


def _add(part: Part, line: dict, marks: Marks) -> None:
    part.students.add(line["student"])
    part.possible = marks.possible
    part.points.append(marks.score)
    part.seconds.append(line["seconds"])
    for name, result in line["results"].items():
        item = part.items.setdefault(name, Item(name, part.assignment))
        mark = marks.cells.get(name)
        item.possible = mark.possible if mark else result["points"]
        item.points.append(mark.points if mark else result["earned"])
        item.statuses[result["status"]] += 1
        item.seconds.append(result["seconds"])
        if result["status"] == "unjudged" and not (mark and mark.by_hand):
            item.unjudged.append(result)
        if result["status"] in ("wrong", "crashed") and result["message_id"] not in NOT_OF_THE_ANSWER:
            item.said.setdefault(result["message_id"], []).append(result)


def _unjudged(items: list[Item]) -> str:
    """Return how many answers have no verdict, by exercise, with what each check failed at: a person has to decide on them."""
    lines = [
        f"<tr><td><code>{html.escape(item.name)}</code></td><td>{html.escape(item.assignment)}</td>"
        f"<td class=number>{plural(len(item.unjudged), 'answer')}</td><td>{_case(item.unjudged[0]['values'].get('error', ''))}</td></tr>"
        for item in items
    ]
    count = sum(len(item.unjudged) for item in items)
    return (
        f"<h2>Not judged: {plural(count, 'answer')}</h2><p>Here the check itself failed, which is the course’s fault. Each counts as "
        f"0 points until you give it points in formgrader.</p><table>{''.join(lines)}</table>"
    )


def _hardest(items: list[Item]) -> str:
    lines = [
        f"<tr><td><code>{html.escape(item.name)}</code></td><td>{html.escape(item.assignment)}</td>"
        f"<td class=number>{item.fraction:.0%} of the points of {plural(len(item.points), 'hand-in')}</td><td>{_bar(item.statuses)}</td></tr>"
        for item in items
    ]
    return f"<h2>The hardest</h2><table>{''.join(lines)}</table>"


def _part(part: Part, students: dict[str, str], comments: Comments) -> str:
    """Return one notebook's section."""
    again = sum(count > 1 for count in part.versions.values())
    facts = [f"{len(part.students)} of {plural(len(students), 'student')} graded"]
    if part.points:
        facts.append(f"median {number(median(part.points))} of {plural(number(part.possible), 'point')}")
        facts.append(f"{median(part.seconds):.0f} s each, {_duration(sum(part.seconds))} in all")
    facts += [f"{again} handed in more than once"] if again else []
    rows = "".join(map(_row, part.items.values()))
    head = "<tr><th>exercise<th>outcome<th class=number>mean points<th class=number>median s</tr>"
    without = dict.fromkeys(students.keys() - part.students, "") | part.ungradable
    who = {one: f"{one} ({students[one]})" if students.get(one) else one for one in without}
    lines = [html.escape(who[one]) + (f": {prose(why)}" if why else "") for one, why in sorted(without.items())]
    name = part.assignment if part.assignment == part.notebook else f"{part.assignment}/{part.notebook}"
    return "\n".join(
        [
            f"<h2>{html.escape(name)}</h2><p class=small>{' · '.join(facts)}</p>",
            f"<table>{head}{rows}</table>" if rows else "",
            _messages(part, comments),
            f"<h3>Handed in nothing, or nothing that can be graded: {len(lines)}</h3><p>{'<br>'.join(lines)}</p>"
            if lines
            else "",
        ]
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _row(item: Item) -> str:
    points = (
        f"{number(round(sum(item.points) / len(item.points), 2))} of {number(item.possible)}"
        if item.possible
        else "not counted"
    )
    return (
        f"<tr><td><code>{html.escape(item.name)}</code></td><td>{_bar(item.statuses)}</td>"
        f"<td class=number>{points}</td><td class=number>{median(item.seconds):.1f}</td></tr>"
    )


def _bar(statuses: Counter[str]) -> str:
    """Return how many ended in each way, as a bar in the colours of results."""
    pieces = [
        f"<div style='flex:{statuses[status]};background:{COLOURS[status]}' title='{statuses[status]} {words}'></div>"
        for status, words in WORDS.items()
        if statuses[status]
    ]
    said = ", ".join(f"{statuses[status]} {words}" for status, words in WORDS.items() if statuses[status])
    return f"<div class=bar>{''.join(pieces)}</div><span class=small>{said}</span>"


def _case(text: str) -> str:
    """Return what a check tried, got or points at: words with code between backticks, else all of it code."""
    return prose(text) if "`" in text else f"<code>{html.escape(text)}</code>"


def _messages(part: Part, comments: Comments) -> str:
    """Return the most common messages by their ids, each with one student's case."""
    found = [(item, message, results) for item in part.items.values() for message, results in item.said.items()]
    found.sort(key=lambda each: -len(each[2]))
    rows = []
    for item, message, results in found[:MESSAGES]:
        example = results[0]
        case = [f"{label} {_case(example[name])}" for label, name in CASE.items() if example[name]]
        comment = comments.get((example["chapter"], example["name"], message), "")
        said = f"<div class=said>{as_html(comment)}</div>" if comment else ""
        rows.append(
            f"<tr><td class=number>{len(results)} ×</td><td class=name><code>{html.escape(item.name)}</code><br>"
            f"<code class=small>{html.escape(message)}</code></td>"
            f"<td>{prose(example['message'])}<div class=small>{'<br>'.join(case)}</div>{said}</td></tr>"
        )
    return f"<h3>The most common messages</h3><table>{''.join(rows)}</table>" if rows else ""
