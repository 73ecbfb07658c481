"""The run sheet that the room follows: what should happen when, and how far the middle of the room is from it."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from coursekit.basics.cards import plural
from coursekit.basics.errors import CommandError
from coursekit.basics.paths import ROOT
from coursekit.basics.readers_language import spoken, told, told_markdown
from coursekit.basics.translations import PAGES

_HEADING = re.compile(r"#+ (.+)")
_ROW = re.compile(r"\| *(\d+):(\d\d) *\| *(\d+) *\| *([^|]*?) *\| *([^|]*?) *\|(?: *([^|]*?) *\|)?")
HEADING, IN_THE_ROOM = "heading", "run sheet"  # the contexts of what is translated
TRANSLATED = {"workshop.md": PAGES}  # where the texts of pages with run sheets for days are
MINUTES = "{minutes} min"
_MARKUP = re.compile(r"\[(.*?)\]\(.*?\)|\*\*(.*?)\*\*|\*(.*?)\*|`(.*?)`")


@dataclass(frozen=True)
class Row:
    """One line of a run sheet; times in minutes from its beginning. `what` is English, `shown` is what the instructor reads for it."""

    start: int
    end: int
    what: str
    exercises: tuple[str, ...]
    say: str = ""
    shown: str = ""


def read(text: str, chapter: str = "") -> dict[str, list[Row]]:
    """Return the run sheets of a page by their headings: tables of time, minutes, what, exercises and, if you like, what to say.

    What the instructor reads is in their language where it is translated, with the texts of a chapter.
    """
    found: dict[str, list[Row]] = {}
    heading = ""
    for line in text.splitlines():
        if match := _HEADING.fullmatch(line):
            heading = match[1]
        elif match := _ROW.fullmatch(line):
            start = 60 * int(match[1]) + int(match[2])
            exercises = tuple(re.findall(r"`(\w+)`", match[5]))
            shown = " · ".join(_told(part, chapter, HEADING) for part in match[4].split(" · "))
            say = _told(match[6] or "", chapter, IN_THE_ROOM)
            row = Row(start, start + int(match[3]), _plain(match[4]), exercises, say, shown)
            found.setdefault(heading, []).append(row)
    return found


def _told(text: str, chapter: str, place: str) -> str:
    return _plain(told_markdown(text, chapter, place) if chapter else text)


def _plain(text: str) -> str:
    """Return the words of a cell, without the markup of links, bold, italics and code."""
    return _MARKUP.sub(lambda match: next(filter(None, match.groups()), ""), text)


def sheets() -> dict[str, list[Row]]:
    """Return the run sheets of docs/ by their English titles: those for days, then those of the chapters."""
    return {title: rows for title, (rows, _) in _sheets(spoken()).items()}


def all_sheets() -> list[dict[str, str]]:
    """Return the titles of all run sheets, and what the instructor reads for each."""
    return [{"title": title, "shown": shown} for title, (_, shown) in _sheets(spoken()).items()]


@cache
def _sheets(language: str) -> dict[str, tuple[list[Row], str]]:
    """Return the rows of each run sheet, and its title, in the language that is spoken now."""
    paths = [path for pattern in ("*.md", "run_sheets/ch*.md") for path in sorted((ROOT / "docs").glob(pattern))]
    of_chapters = [
        (path, path.stem if path.parent.name == "run_sheets" else TRANSLATED.get(path.name, "")) for path in paths
    ]
    return {
        title: (rows, _told(title, chapter, HEADING))
        for path, chapter in of_chapters
        for title, rows in read(path.read_text(encoding="utf-8"), chapter).items()
    }


class Line(NamedTuple):
    """A line of a speaker's plan: its words, the exercises and sections that belong to it, and what to do in the room."""

    words: str
    names: tuple[str, ...]
    say: str = ""


def own_sheet(chapter: str) -> str:
    """Return the title of a chapter's own run sheet, "" where it has none."""
    path = ROOT / f"docs/run_sheets/{chapter}.md"
    return next(iter(read(path.read_text(encoding="utf-8"))), "") if path.exists() else ""


def lines(minutes: dict[str, int], title: str = "") -> list[Line]:
    """Return what a speaker has before them: a chapter's own run sheet, or the lines of a day's from its first exercise to its last.

    The sheet is that with most of the exercises among those that begin with the title; where there is none, each exercise is a line.
    """
    named = [rows for name, rows in sheets().items() if name.startswith(title)]
    rows = max(named, key=lambda rows: len(minutes.keys() & _exercises(rows)), default=[])
    mine = [number for number, row in enumerate(rows) if minutes.keys() & set(row.exercises)]
    if mine and not _exercises(rows) <= minutes.keys():
        rows = rows[mine[0] : mine[-1] + 1]
    if mine:
        return [Line(_line(row, minutes), row.exercises + tuple(row.what.split(" · ")), row.say) for row in rows]
    if title:
        raise CommandError(f"No run sheet in docs/ begins with {title!r} and has an exercise of this chapter.")
    return [Line(f"`{name}`: {told(plural(each, 'minute'))}", (name,)) for name, each in minutes.items()]


def _exercises(rows: list[Row]) -> set[str]:
    return {name for row in rows for name in row.exercises}


def _line(row: Row, minutes: dict[str, int]) -> str:
    mine = ", ".join(f"`{name}` {_in_minutes(minutes[name])}" for name in row.exercises if name in minutes)
    when = f"{row.start // 60}:{row.start % 60:02} · {_in_minutes(row.end - row.start)}"
    return f"{when} · {row.shown or row.what}" + (f" ({mine})" if mine else "")


def _in_minutes(number: int) -> str:
    return told(MINUTES).format(minutes=number)


class Plan:
    """The run sheet that was begun, if any."""

    def __init__(self) -> None:
        self._title, self._shown, self._rows, self._began = "", "", list[Row](), 0.0

    def begin(self, title: str, at: float) -> None:
        """Follow a run sheet from now on, none for no title; raises ValueError where there is no such one."""
        if title and title not in sheets():
            raise ValueError("there is no such run sheet")
        self._title, self._rows, self._began = title, sheets().get(title, []), at
        self._shown = next((sheet["shown"] for sheet in all_sheets() if sheet["title"] == title), title)

    def of(self, exercises: dict[str, int]) -> dict[str, int]:
        """Return those of a chapter's exercises that the run sheet has for the room, all where it has none of them."""
        here = _exercises(self._rows)
        return {name: minutes for name, minutes in exercises.items() if name in here} or exercises

    def starts(self, name: str) -> float:
        """Return when the row of an exercise begins, 0 where there is none."""
        return next((self._began + 60 * row.start for row in self._rows if name in row.exercises), 0.0)

    def view(self, middle: str, now: float) -> dict[str, Any] | None:
        """Return the plan with the row of now, that of the exercise where the middle of the room is, and by how much it is late."""
        if not self._title:
            return None
        passed = (now - self._began) / 60
        there = next((row for row in self._rows if middle in row.exercises), None)
        late = None if there is None else round(max(passed - there.end, 0) - max(there.start - passed, 0))
        rows = [
            {
                "at": self._began + 60 * row.start,
                "minutes": row.end - row.start,
                "what": row.shown or row.what,
                "exercises": row.exercises,
                "say": row.say,
                "now": row.start <= passed < row.end,
                "room": row is there,
            }
            for row in self._rows
        ]
        return {"title": self._title, "shown": self._shown, "rows": rows, "late": late}
