"""What a learner sees of the course: a chapter's exercises in the notebook's order, the points of all chapters, what comes next."""

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from coursekit.basics.cards import card, link, plural, prose
from coursekit.basics.cells import judged_by
from coursekit.basics.paths import NOTEBOOKS, typed
from coursekit.basics.readers_language import stays_english, told
from coursekit.judging import exercise
from coursekit.judging.result import NOT_COUNTED, SIGNS
from coursekit.learner.guesses import Guesses, guesses
from coursekit.learner.learning_paths import path_of
from coursekit.learner.pace import in_words, minutes, pace
from coursekit.learner.progress import load
from coursekit.learner.review_schedule import is_invited

_NO_QUIZZES = re.compile(r"^begin\(.*\bquizzes=False\)", re.MULTILINE)
_BUILDS_ON = re.compile(r"builds on ([^;*\n]+)")
_NUMBER = re.compile(r"\(ch(\d\d)_\w+\.ipynb\)")
REVIEW = (
    f"A review of earlier chapters is due and takes five minutes: `review()`, or `{typed('review')}` in a terminal."
)
_KIND = re.compile(r"^\w+ (\d+)(?: 章)?")  # Chapter 3, or 第 3 章
OF, EN = "of", "EN"
LEGEND = "EN: this chapter isn't translated yet."
WIDTH, BAR = 80, 10  # columns of a terminal, and of a bar
# A plot is drawn on white. Where JupyterLab is dark, its lightness is reversed, and its colours stay.
DARK_PLOTS = "<style>[data-jp-theme-light=false] .jp-RenderedImage img{filter:invert(.93) hue-rotate(180deg)}</style>"


@dataclass(frozen=True)
class Contents:
    """The exercises of a chapter with their points, for `begin` to show."""

    rows: list[tuple[str, str, int, int]]  # sign, name, points, minutes
    note: str = ""
    links: dict[str, str] = field(default_factory=dict)  # by name

    def __str__(self) -> str:
        lines = [
            f"{sign} {name}: {told(_worth(points))}, {told(f'{minutes} min')}"
            for sign, name, points, minutes in self.rows
        ]
        return "\n".join(filter(None, [*lines, told(self.note)]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<div>{sign} {link(name, self.links[name])} · {told(_worth(points))} · {told(f'{minutes} min')}</div>"
            for sign, name, points, minutes in self.rows
        )
        total = sum(row[2] for row in self.rows)
        lines += f"<div style='margin-top:4px'>{prose(told(self.note))}</div>"
        return DARK_PLOTS + card(told(f"{plural(total, 'point')} in this chapter"), lines, "#2563eb")


@dataclass(frozen=True)
class Chapter:
    """One line of the overview; `open` are the exercises and quizzes that count and are not passed, `begun` those that were tried."""

    name: str
    title: str
    points: int
    earned: int
    open: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    at: float = 0  # when something in it was tried last
    needs: frozenset[int] = frozenset()  # the chapters that it builds on

    @property
    def number(self) -> int:
        """Return its number in the course."""
        return int(self.name[2:4])

    @property
    def shown_title(self) -> str:
        """Return its title in the reader's language."""
        return self.title if self.stays_english else told(self.title, self.name)

    @property
    def stays_english(self) -> bool:
        """Return whether the reader's language is another one, and has nothing of it."""
        return stays_english(self.name)


@dataclass(frozen=True)
class Overview:
    """All chapters at a glance: text in a terminal, a table in a notebook."""

    chapters: list[Chapter] = field(default_factory=list)
    note: str = ""
    retired: list[str] = field(default_factory=list)  # what was passed and is no longer in the course
    pace: float | None = None  # the learner's minutes for each declared one
    invited: bool = False  # a review is due

    def __str__(self) -> str:
        said = [*map(told, (self._total(), *self._notes())), self.next_step()[0]]
        return "\n".join([*map(_line, self.chapters), *(textwrap.fill(text, WIDTH) for text in said if text)])

    __repr__ = __str__

    def next_step(self, done: str = "") -> tuple[str, str]:
        """Return what to do next, and its link, after the chapter `done`, else after the one that was worked on last."""
        chapter, elective = self._next(done)
        if chapter is None:
            return told("You have every point of the course."), ""
        begun = f"{chapter.begun[0]}, which you have begun, in " if chapter.begun else ""
        begun = begun or (f"{chapter.open[0]}, in " if chapter.earned else "")
        kind = told("Next, an elective") if elective else told("Next")
        return f"{kind}: {told(begun)}{chapter.name}.ipynb ({chapter.shown_title})", link_to(chapter.name)

    def _next(self, done: str = "") -> tuple[Chapter | None, bool]:
        """Return the next chapter of the learner's path, and whether it is an elective, because the path is done."""
        last = self._last(done)
        begun, way = self._begun(), self._path()[1]
        left = [each for each in [*self.chapters[last:], *self.chapters[:last]] if each.open]
        of_path = [each for each in left if each.number in way]
        understood = [each for each in left if each.needs <= begun]
        return next(iter([*of_path, *understood, *left]), None), bool(left) and not of_path

    def _last(self, done: str) -> int:
        """Return the place of the chapter `done`, else of the one worked on last, else of the last one that has points."""
        order = [(each.name == done, each.at, bool(each.earned) * place) for place, each in enumerate(self.chapters)]
        return order.index(max(order)) if order else 0

    def _begun(self) -> set[int]:
        return {each.number for each in self.chapters if each.earned or each.at}

    def _path(self) -> tuple[str, list[int]]:
        return path_of(self._begun(), [each.number for each in self.chapters])

    def invitation(self) -> str:
        """Return a line on what is due for a review, "" for nothing."""
        return REVIEW if self.invited else ""

    def time_left(self) -> str:
        """Return the minutes that are left in the next chapter and on the path at the learner's pace, "" where it is not known."""
        chapter, (name, way) = self._next()[0], self._path()
        if self.pace is None or chapter is None:
            return ""
        here = in_words(self.pace * minutes(chapter.name, chapter.open))
        whole = sum(minutes(each.name, each.open) for each in self.chapters if each.number in way)
        rest = in_words(self.pace * whole)
        if whole and name:
            return (
                f"At your pace, about {here} are left in Chapter {chapter.number}, and {rest} to the end of “{name}”."
            )
        if whole:
            return (
                f"At your pace, about {here} are left in Chapter {chapter.number}, and {rest} to the end of the course."
            )
        return f"At your pace, about {here} are left in Chapter {chapter.number}."

    def done_and_retired(self) -> str:
        """Return a line on the exercises that were passed and that the course has no longer, "" for none."""
        return f"Done, retired (no longer in the course): {', '.join(self.retired)}." if self.retired else ""

    def _total(self) -> str:
        earned, points = sum(c.earned for c in self.chapters), sum(c.points for c in self.chapters)
        return f"In all: {earned} of {points} points."

    def _notes(self) -> tuple[str, ...]:
        legend = LEGEND if any(each.stays_english for each in self.chapters) else ""
        return legend, self.done_and_retired(), self.note, self.time_left(), self.invitation()

    def _repr_html_(self) -> str:
        rows = "".join(_row(chapter) for chapter in self.chapters)
        notes = "".join(f"<p>{prose(told(note))}</p>" for note in self._notes() if note)
        total = f"<p><b>{told(self._total())}</b></p>"
        return f"<table><tbody>{rows}</tbody></table>{total}{notes}<p>{link(*self.next_step())}</p>"


def progress(chapter: str = "") -> Overview | Contents | Guesses:
    """Return the points of every chapter and the next step; of one chapter, `progress("ch01_tasks")`, its exercises.

    `progress("guesses")` compares your predictions with what was measured, in all chapters.
    """
    if chapter == "guesses":
        return guesses()
    return contents(chapter) if chapter else overview()


def contents(chapter: str, *notes: str, quizzes: bool = True) -> Contents:
    """Return the exercises of a chapter, in the notebook's order, with what was earned; without `quizzes`, those count nothing."""
    items, (saved, note) = exercise.load(chapter), load()
    path = NOTEBOOKS / f"{chapter}.ipynb"
    cells = _graded(path)[1] if path.exists() else {}
    order = sorted(items.values(), key=lambda item: list(cells).index(item.name) if item.name in cells else len(cells))
    signs = {name: SIGNS[each["status"]] for name, each in saved.get(chapter, {}).items()}
    worth = {item.name: cells[item.name][0] if item.name in cells else item.points for item in order}
    worth |= {item.name: 0 for item in order if item.kind == "quiz" and not quizzes}
    rows = [(signs.get(item.name, "○"), item.name, worth[item.name], item.minutes) for item in order]
    links = {item.name: link_to(chapter, cells[item.name][1] if item.name in cells else "") for item in order}
    return Contents(rows, "\n".join(filter(None, [*notes, note])), links)


def overview(notebooks: Path = NOTEBOOKS) -> Overview:
    """Return the points of every chapter, earned and possible."""
    saved, note = load()
    speed, chapters = pace(saved), []
    for path in sorted(notebooks.glob("ch*.ipynb")):
        title, cells, needs = _graded(path)
        mine = saved.pop(path.stem, {})
        at = max((each.get("at") or 0 for each in mine.values()), default=0)
        worth = {name: points for name, (points, _) in cells.items()}
        left = tuple(name for name in worth if worth[name] and mine.get(name, {}).get("status") != "passed")
        begun = tuple(name for name in left if mine.get(name, {}).get("attempts"))
        earned = sum(min(mine.pop(name)["earned"], worth[name]) for name in worth.keys() & mine.keys())
        chapters.append(Chapter(path.stem, title, sum(worth.values()), earned, left, begun, at, needs))
        saved[path.stem] = mine
    retired = [f"{chapter}/{name}" for chapter, left in saved.items() for name in left if left[name]["earned"]]
    latest = max(chapters, key=lambda each: each.at).name if chapters else ""
    return Overview(chapters, note, sorted(retired), speed, is_invited(latest))


def open_items(chapter: str, quizzes: bool) -> set[str]:
    """Return the exercises of a chapter that are not passed, and its quizzes where they count."""
    saved = load()[0].get(chapter, {})
    counted = (name for name, item in exercise.load(chapter).items() if quizzes or item.kind != "quiz")
    return {name for name in counted if saved.get(name, {}).get("status") != "passed"}


def link_to(chapter: str, cell: str = "") -> str:
    """Return the link to a cell of the chapter's notebook that lies beside the one that is running, "" where none does."""
    path = Path(f"{chapter}.ipynb")
    return f"{path}#cell-id={cell}".removesuffix("#cell-id=") if path.exists() else ""


def _graded(path: Path) -> tuple[str, dict[str, tuple[int, str]], frozenset[int]]:
    """Return a notebook's first heading and, by the names of its graded cells, their points and the cell where each begins.

    The third is the numbers of the chapters that it builds on.
    Where its `begin` says that quizzes earn nothing, they have 0 points.
    """
    cells = nbformat.read(path, as_version=4).cells
    headings = (line for cell in cells for line in cell.source.splitlines() if line.startswith("# "))
    uncounted = any(_NO_QUIZZES.search(cell.source) for cell in cells)
    found = dict[str, tuple[int, str]]()
    for place, cell in enumerate(cells):
        if points := (meta := cell.metadata.get("nbgrader", {})).get("points"):
            is_quiz = uncounted and (judged_by(cell.source) or ("",))[0] == "quiz"
            found[meta["grade_id"]] = (0 if is_quiz else int(points), cells[max(place - 2, 0)].id)
    built_on = next(iter(_BUILDS_ON.findall(cells[0].source if cells else "")), "")
    needs = frozenset(map(int, _NUMBER.findall(built_on)))
    return next(headings, path.stem).removeprefix("# "), found, needs


def _worth(points: int) -> str:
    return plural(points, "point") if points else NOT_COUNTED


def _line(chapter: Chapter) -> str:
    full = BAR * chapter.earned // chapter.points if chapter.points else 0
    points = f"{'█' * full}{'░' * (BAR - full)}  {chapter.earned:>3} {told(OF)} {chapter.points:>2}"
    width = WIDTH - len(points) - 2
    mark = f" {EN}" if chapter.stays_english else ""
    title = textwrap.shorten(_KIND.sub(r"\1", chapter.shown_title), width - len(mark), placeholder=" …")
    return f"{title + mark:<{width}}  {points}"


def _row(chapter: Chapter) -> str:
    percent = 100 * chapter.earned / chapter.points if chapter.points else 0
    bar = (
        "<div style='width:160px;height:10px;border-radius:5px;background:#94a3b855'>"
        f"<div style='width:{percent:.0f}%;height:10px;border-radius:5px;background:#16a34a'></div></div>"
    )
    title = link(chapter.shown_title, link_to(chapter.name)) + f" <sup>{EN}</sup>" * chapter.stays_english
    return f"<tr><td style='text-align:left'>{title}</td><td>{bar}</td><td style='white-space:nowrap'>{chapter.earned} {told(OF)} {chapter.points}</td></tr>"
