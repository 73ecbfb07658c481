"""What a learner sees of the course: a chapter's exercises in the notebook's order, the points of all chapters, what comes next."""

import html
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from coursekit.basics.cards import card, link, plural, prose
from coursekit.basics.cells import judged_by
from coursekit.basics.paths import NOTEBOOKS
from coursekit.judging import exercise
from coursekit.judging.result import SIGNS
from coursekit.learner.progress import load

_NO_QUIZZES = re.compile(r"^begin\(.*\bquizzes=False\)", re.MULTILINE)
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
        lines = [f"{sign} {name}: {_worth(points)}, {minutes} min" for sign, name, points, minutes in self.rows]
        return "\n".join(filter(None, [*lines, self.note]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<div>{sign} {link(name, self.links[name])} · {_worth(points)} · {minutes} min</div>"
            for sign, name, points, minutes in self.rows
        )
        total = sum(row[2] for row in self.rows)
        lines += f"<div style='margin-top:4px'>{prose(self.note)}</div>"
        return DARK_PLOTS + card(f"{plural(total, 'point')} in this chapter", lines, "#2563eb")


@dataclass(frozen=True)
class Chapter:
    """One line of the overview; `open` are the exercises and quizzes that count and are not passed."""

    name: str
    title: str
    points: int
    earned: int
    open: tuple[str, ...] = ()


@dataclass(frozen=True)
class Overview:
    """All chapters at a glance: text in a terminal, a table in a notebook."""

    chapters: list[Chapter] = field(default_factory=list)
    note: str = ""
    retired: list[str] = field(default_factory=list)  # what was passed and is no longer in the course

    def __str__(self) -> str:
        said = [self._total(), self.done_and_retired(), self.note, self.next_step()[0]]
        return "\n".join([*map(_line, self.chapters), *(textwrap.fill(text, WIDTH) for text in said if text)])

    __repr__ = __str__

    def next_step(self, done: str = "") -> tuple[str, str]:
        """Return what to do next, and its link: go on after the chapter `done`, else with the last one that has points."""
        last = max(
            (place for place, c in enumerate(self.chapters) if c.name == done or (c.earned and not done)), default=0
        )
        chapter = next((c for c in [*self.chapters[last:], *self.chapters[:last]] if c.open), None)
        if chapter is None:
            return "You have every point of the course.", ""
        begun = f"{chapter.open[0]}, in " if chapter.earned else ""
        return f"Next: {begun}{chapter.name}.ipynb ({chapter.title})", link_to(chapter.name)

    def done_and_retired(self) -> str:
        """Return a line on the exercises that were passed and that the course has no longer, "" for none."""
        return f"Done, retired (no longer in the course): {', '.join(self.retired)}." if self.retired else ""

    def _total(self) -> str:
        earned, points = sum(c.earned for c in self.chapters), sum(c.points for c in self.chapters)
        return f"In all: {earned} of {points} points."

    def _repr_html_(self) -> str:
        rows = "".join(_row(chapter) for chapter in self.chapters)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in (self.done_and_retired(), self.note) if note)
        return (
            f"<table><tbody>{rows}</tbody></table><p><b>{self._total()}</b></p>{notes}<p>{link(*self.next_step())}</p>"
        )


def progress(chapter: str = "") -> Overview | Contents:
    """Return the points of every chapter, earned and possible; of one chapter, `progress("ch01_tasks")`, its exercises."""
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
    chapters = []
    for path in sorted(notebooks.glob("ch*.ipynb")):
        title, cells = _graded(path)
        mine = saved.pop(path.stem, {})
        worth = {name: points for name, (points, _) in cells.items()}
        left = tuple(name for name in worth if worth[name] and mine.get(name, {}).get("status") != "passed")
        earned = sum(min(mine.pop(name)["earned"], worth[name]) for name in worth.keys() & mine.keys())
        chapters.append(Chapter(path.stem, title, sum(worth.values()), earned, left))
        saved[path.stem] = mine
    retired = [f"{chapter}/{name}" for chapter, left in saved.items() for name in left if left[name]["earned"]]
    return Overview(chapters, note, sorted(retired))


def open_items(chapter: str, quizzes: bool) -> set[str]:
    """Return the exercises of a chapter that are not passed, and its quizzes where they count."""
    saved = load()[0].get(chapter, {})
    counted = (name for name, item in exercise.load(chapter).items() if quizzes or item.kind != "quiz")
    return {name for name in counted if saved.get(name, {}).get("status") != "passed"}


def link_to(chapter: str, cell: str = "") -> str:
    """Return the link to a cell of the chapter's notebook that lies beside the one that is running, "" where none does."""
    path = Path(f"{chapter}.ipynb")
    return f"{path}#cell-id={cell}".removesuffix("#cell-id=") if path.exists() else ""


def _graded(path: Path) -> tuple[str, dict[str, tuple[int, str]]]:
    """Return a notebook's first heading and, by the names of its graded cells, their points and the cell where each begins.

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
    return next(headings, path.stem).removeprefix("# "), found


def _worth(points: int) -> str:
    return plural(points, "point") if points else "not counted"


def _line(chapter: Chapter) -> str:
    full = BAR * chapter.earned // chapter.points if chapter.points else 0
    points = f"{'█' * full}{'░' * (BAR - full)}  {chapter.earned:>3} of {chapter.points:>2}"
    width = WIDTH - len(points) - 2
    return f"{textwrap.shorten(chapter.title.removeprefix('Chapter '), width, placeholder=' …'):<{width}}  {points}"


def _row(chapter: Chapter) -> str:
    percent = 100 * chapter.earned / chapter.points if chapter.points else 0
    bar = (
        "<div style='width:160px;height:10px;border-radius:5px;background:#94a3b855'>"
        f"<div style='width:{percent:.0f}%;height:10px;border-radius:5px;background:#16a34a'></div></div>"
    )
    title = link(chapter.title, link_to(chapter.name))
    return f"<tr><td style='text-align:left'>{title}</td><td>{bar}</td><td style='white-space:nowrap'>{chapter.earned} of {chapter.points}</td></tr>"
