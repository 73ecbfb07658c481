"""The class's page, for the instructor: first what to act on, then what came of each notebook."""

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

from coursekit.basics.cards import card, plural, prose
from coursekit.basics.dates import in_words
from coursekit.basics.errors import CommandError
from coursekit.basics.html_page import html_page
from coursekit.basics.journal import Journal
from coursekit.basics.readers_language import spoken, told, told_message
from coursekit.grading.book_marks import Marks, marks_of
from coursekit.grading.class_run import NOTHING, Run
from coursekit.grading.class_settings import Settings
from coursekit.grading.comments import Comments, as_html, load
from coursekit.grading.student_page import moment_in_words, number, of_points, outcome_bar, told_reason
from coursekit.judging.result import COLOURS, NOT_COUNTED, WORDS

TITLE, BOOK = "The class in {folder}", "points from nbgrader’s gradebook"
MISSING, NOT_GRADABLE, NOT_JUDGED = "Handed in nothing: {number}", "Not gradable: {number}", "Not judged: {number}"
WHY = (
    "In these answers, the check itself failed, which is the course’s fault. Each counts as 0 points until you give it points "
    "in formgrader."
)
HARDEST_ONES, COMMONEST = "The hardest exercises", "The most common messages"
OF_POINTS, DUE = "{percent} of the points", " (due {date})"
MEAN, PART = "{number} of {all}", "{number} of {students} graded"
MEDIAN, SECONDS, AGAIN = "median {points}", "{each} s each, {all} in all", "{number} handed in more than once"
CASE = {"Tried": "tried", "Came back": "got", "Look at": "where"}
HARDEST, ENOUGH = 5, 10  # exercises that are shown; hand-ins of each, below which it says little of a class
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

    @property
    def title(self) -> str:
        """Return how the page calls it."""
        return self.assignment if self.assignment == self.notebook else f"{self.assignment}/{self.notebook}"


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
    path = run.folder / "class.html"
    with run.speaking():
        page = page_of_class(run.folder.name, parts, students, comments, run.course.settings)
    path.write_text(page, encoding="utf-8")
    return path


def page_of_class(
    name: str, parts: list[Part], students: dict[str, str], comments: Comments, settings: Settings
) -> str:
    """Return the page of the class in a folder; `students` has all of them with their names, "" where there is none."""
    title = told(TITLE).format(folder=name)
    counts = f"{told(plural(len(students), 'student'))}, {told(plural(len(parts), 'notebook'))}"
    when = moment_in_words(datetime.now(settings.zone))
    items = [item for part in parts for item in part.items.values()]
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="small">{counts} · {when} · {told(BOOK)}</p>',
        _missing(parts, students, settings),
        _ungradable(parts, students),
        _unjudged([item for item in items if item.unjudged]),
        _hardest(items),
        _messages(parts, comments),
        *(_part(part, students) for part in parts),
    ]
    return html_page(title, "\n".join(filter(None, body)), "class", spoken())


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


def _missing(parts: list[Part], students: dict[str, str], settings: Settings) -> str:
    """Return who handed in nothing, by notebook; behind a student who still may, until when."""
    lines = {}
    missing = [sorted(students.keys() - part.students - part.ungradable.keys()) for part in parts]
    for part, without in zip(parts, missing, strict=True):
        dues = {one: settings.to_come(one, part.assignment) for one in without}
        who = [
            _who(one, students) + (told(DUE).format(date=told(in_words(due))) if due else "")
            for one, due in dues.items()
        ]
        lines[part.title] = f"{len(who)}: {', '.join(who)}" if who else ""
    count = len(set().union(*missing))
    return _act(told(MISSING).format(number=told(plural(count, "student"))), lines, COLOURS["todo"])


def _ungradable(parts: list[Part], students: dict[str, str]) -> str:
    """Return what could not be graded, and why."""
    lines = {
        part.title: "<br>".join(
            f"{_who(one, students)}: {prose(told_reason(why))}" for one, why in sorted(part.ungradable.items())
        )
        for part in parts
    }
    count = sum(len(part.ungradable) for part in parts)
    return _act(told(NOT_GRADABLE).format(number=told(plural(count, "notebook"))), lines, COLOURS["crashed"])


def _unjudged(items: list[Item]) -> str:
    """Return how many answers have no verdict, by exercise, with what each check failed at: a person has to decide on them."""
    lines = {
        f"{item.name} ({item.assignment})": f"{len(item.unjudged)}: {_case(item.unjudged[0]['values'].get('error', ''))}"
        for item in items
    }
    count = sum(len(item.unjudged) for item in items)
    return _act(told(NOT_JUDGED).format(number=told(plural(count, "answer"))), lines, COLOURS["unjudged"], told(WHY))


def _act(title: str, lines: dict[str, str], colour: str, why: str = "") -> str:
    """Return a card with lines of HTML by what they are about, "" where there is none."""
    shown = "".join(
        f"<dt><code>{html.escape(about)}</code></dt><dd>{line}</dd>" for about, line in lines.items() if line
    )
    return card(title, f"{why}<dl>{shown}</dl>", colour) if shown else ""


def _who(student: str, students: dict[str, str]) -> str:
    name = students.get(student)
    return html.escape(f"{student} ({name})" if name else student)


def _hardest(items: list[Item]) -> str:
    """Return the exercises that cost the class most, among those that enough students have handed in."""
    many = [item for item in items if len(item.points) >= ENOUGH and item.fraction < 1]
    hardest = sorted(many, key=lambda item: item.fraction)[:HARDEST]
    lines = [
        f"<tr><td><code>{html.escape(item.name)}</code><br><span class=small>{html.escape(item.assignment)}</span></td>"
        f"<td class=number>{_percent(item)}<br><span class=small>{told(plural(len(item.points), 'hand-in'))}</span></td>"
        f"<td>{outcome_bar(item.statuses)}</td></tr>"
        for item in hardest
    ]
    return f"<h2>{told(HARDEST_ONES)}</h2><table>{''.join(lines)}</table>" if hardest else ""


def _percent(item: Item) -> str:
    return told(OF_POINTS).format(percent=f"{item.fraction:.0%}")


def _messages(parts: list[Part], comments: Comments) -> str:
    """Return the most common messages of each notebook, a card for each."""
    found = [(part, list(_cards(part, comments))) for part in parts]
    shown = [
        f"<h3>{html.escape(part.title)}</h3><div class=cards>{''.join(cards)}</div>" for part, cards in found if cards
    ]
    return f"<h2>{told(COMMONEST)}</h2>{''.join(shown)}" if shown else ""


def _cards(part: Part, comments: Comments) -> Iterator[str]:
    """Yield a card for each of a notebook's most common messages: how many got it, one student's case, your comment on it."""
    found = [(item, message, results) for item in part.items.values() for message, results in item.said.items()]
    found.sort(key=lambda each: -len(each[2]))
    for item, message, results in found[:MESSAGES]:
        example = results[0]
        labels = CASE if example["kind"] != "quiz" else {}  # of a quiz, the message's id has the chosen letter
        case = [f"{told(label)} {_case(_said(name, example[name]))}" for label, name in labels.items() if example[name]]
        comment = comments.get((example["chapter"], example["name"], message), "")
        said = f"<div class=said>{as_html(comment)}</div>" if comment else ""
        yield card(
            f"{len(results)} × {item.name}: {told(WORDS[example['status']])}",
            f"<code class=small>{html.escape(message)}</code> {prose(_message(example))}"
            f"<div class=small>{'<br>'.join(case)}</div>{said}",
            COLOURS[example["status"]],
        )


def _message(result: dict) -> str:
    of = (result["chapter"], result["name"])
    return told_message(of, result["message_id"], result["values"], result["message"])


def _said(name: str, text: str) -> str:
    return text if name == "got" else told(text)


def _part(part: Part, students: dict[str, str]) -> str:
    """Return what came of one notebook."""
    again = sum(count > 1 for count in part.versions.values())
    facts = [told(PART).format(number=len(part.students), students=told(plural(len(students), "student")))]
    if part.points:
        points = of_points(number(median(part.points)), number(part.possible))
        facts.append(told(MEDIAN).format(points=points))
        facts.append(told(SECONDS).format(each=f"{median(part.seconds):.0f}", all=_duration(sum(part.seconds))))
    facts += [told(AGAIN).format(number=again)] if again else []
    rows = "".join(map(_row, part.items.values()))
    head = f"<th>{told('exercise')}<th>{told('outcome')}"
    head += f"<th class=number>{told('mean points')}<th class=number>{told('median s')}"
    table = f"<table><tr>{head}</tr>{rows}</table>" if rows else ""
    return f"<h2>{html.escape(part.title)}</h2><p class=small>{' · '.join(facts)}</p>\n{table}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else told(f"{seconds / 60:.0f} min")


def _row(item: Item) -> str:
    points = (
        told(MEAN).format(number=number(round(sum(item.points) / len(item.points), 2)), all=number(item.possible))
        if item.possible
        else told(NOT_COUNTED)
    )
    return (
        f"<tr><td><code>{html.escape(item.name)}</code></td><td>{outcome_bar(item.statuses)}</td>"
        f"<td class=number>{points}</td><td class=number>{median(item.seconds):.1f}</td></tr>"
    )


def _case(text: str) -> str:
    """Return what a check tried, got or points at: words with code between backticks, else all of it code."""
    return prose(text) if "`" in text else f"<code>{html.escape(text)}</code>"
