"""What a learner sees of the course: a chapter's exercises in the notebook's order, the points of all chapters, what comes next."""

import html
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from coursekit.basics.cards import card, link, plural, prose
from coursekit.basics.paths import NOTEBOOKS
from coursekit.judging import exercise
from coursekit.judging.result import SIGNS
from coursekit.learner.progress import load

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
            f"{sign} {name}: {plural(points, 'point')}, {minutes} min" for sign, name, points, minutes in self.rows
        ]
        return "\n".join(filter(None, [*lines, self.note]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<div>{sign} {link(name, self.links[name])} · {plural(points, 'point')} · {minutes} min</div>"
            for sign, name, points, minutes in self.rows
        )
        total = sum(row[2] for row in self.rows)
        lines += f"<div style='margin-top:4px'>{prose(self.note)}</div>"
        return DARK_PLOTS + card(f"{plural(total, 'point')} in this chapter", lines, "#2563eb")


@dataclass(frozen=True)
class Chapter:
    """One line of the overview; `open` are the exercises and quizzes that are not passed."""

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


def contents(chapter: str, *notes: str) -> Contents:
    """Return the exercises of a chapter, in the notebook's order, with what was earned."""
    items, (saved, note) = exercise.load(chapter), load()
    path = NOTEBOOKS / f"{chapter}.ipynb"
    cells = _graded(path)[1] if path.exists() else {}
    order = sorted(items.values(), key=lambda item: list(cells).index(item.name) if item.name in cells else len(cells))
    signs = {name: SIGNS[each["status"]] for name, each in saved.get(chapter, {}).items()}
    rows = [(signs.get(item.name, "○"), item.name, item.points, item.minutes) for item in order]
    links = {item.name: link_to(chapter, cells[item.name][1] if item.name in cells else "") for item in order}
    return Contents(rows, "\n".join(filter(None, [*notes, note])), links)


def overview(notebooks: Path = NOTEBOOKS) -> Overview:
    """Return the points of every chapter, earned and possible."""
    saved, note = load()
    chapters = []
    for path in sorted(notebooks.glob("ch*.ipynb")):
        title, cells = _graded(path)
        mine = saved.pop(path.stem, {})
        left = tuple(name for name in cells if mine.get(name, {}).get("status") != "passed")
        earned = sum(mine.pop(name)["earned"] for name in cells.keys() & mine.keys())
        points = sum(points for points, _ in cells.values())
        chapters.append(Chapter(path.stem, title, points, min(earned, points), left))
        saved[path.stem] = mine
    retired = [f"{chapter}/{name}" for chapter, left in saved.items() for name in left if left[name]["earned"]]
    return Overview(chapters, note, sorted(retired))


def open_items(chapter: str) -> set[str]:
    """Return the exercises and quizzes of a chapter that are not passed."""
    saved = load()[0].get(chapter, {})
    return {name for name in exercise.load(chapter) if saved.get(name, {}).get("status") != "passed"}


def link_to(chapter: str, cell: str = "") -> str:
    """Return the link to a cell of the chapter's notebook that lies beside the one that is running, "" where none does."""
    path = Path(f"{chapter}.ipynb")
    return f"{path}#cell-id={cell}".removesuffix("#cell-id=") if path.exists() else ""


def _graded(path: Path) -> tuple[str, dict[str, tuple[int, str]]]:
    """Return a notebook's first heading and, by the names of its graded cells, their points and the cell where each begins."""
    cells = nbformat.read(path, as_version=4).cells
    headings = (line for cell in cells for line in cell.source.splitlines() if line.startswith("# "))
    graded = [(cell.metadata.get("nbgrader", {}), cells[max(place - 2, 0)].id) for place, cell in enumerate(cells)]
    found = {each["grade_id"]: (int(each["points"]), above) for each, above in graded if each.get("points")}
    return next(headings, path.stem).removeprefix("# "), found


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
