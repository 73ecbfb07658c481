"""What a learner has earned so far: one JSON file in the user's data folder, safe with two notebooks at once."""

import html
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import nbformat
import platformdirs

from coursekit.basics.files import write_whole
from coursekit.basics.paths import NOTEBOOKS
from coursekit.judging.result import Result
from coursekit.learner.renamed_exercises import MOVED, moved

Saved = dict[str, dict[str, dict[str, Any]]]  # chapter → exercise → status, earned, points, attempts


def home() -> Path:
    """Return the folder that keeps a user's progress; the environment variable COURSEKIT_HOME names another."""
    return Path(os.environ.get("COURSEKIT_HOME") or platformdirs.user_data_dir("coursekit"))


def kept(path: Path) -> dict[str, Any]:
    """Return what a small JSON file keeps, {} where there is none that can be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def save(result: Result) -> str:
    """Add a result to the progress file; return a note for the reader, or "" when all went well.

    What was passed stays passed. A file that cannot be read is set aside, never overwritten.
    """
    try:
        with _locked() as path:
            saved, note = _read(path)
            old = saved.setdefault(result.chapter, {}).get(result.name, {})
            saved[result.chapter][result.name] = _merged(old, result)
            write_whole(path, json.dumps({"version": 1, "chapters": saved}, indent=1))
            return note
    except (OSError, filelock.Timeout) as error:
        return f"Your progress could not be saved in {home()} ({error}). The check itself counts in this notebook."


def load() -> tuple[Saved, str]:
    """Return all that is saved, and a note when a damaged file was set aside."""
    try:
        with _locked() as path:
            return _read(path)
    except (OSError, filelock.Timeout) as error:
        return {}, f"Your progress in {home()} could not be read ({error})."


def attempts(chapter: str, name: str) -> int:
    """Return how often an exercise was tried: results that were passed, wrong or crashed."""
    return load()[0].get(chapter, {}).get(name, {}).get("attempts", 0)


@contextmanager
def _locked() -> Iterator[Path]:
    home().mkdir(parents=True, exist_ok=True)
    path = home() / "progress.json"
    with filelock.FileLock(f"{path}.lock", timeout=10):
        yield path


def _read(path: Path) -> tuple[Saved, str]:
    if not path.exists():
        return {}, ""
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))["chapters"]
        if not all(isinstance(each["earned"], int) for items in saved.values() for each in items.values()):
            raise ValueError("points are not numbers")
        return _at_their_places(saved), ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        aside = path.with_name(f"progress.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**6:06d}.json")
        path.rename(aside)
        return {}, f"Your progress file was damaged ({error}). It is kept beside the new one as {aside.name}."


def _at_their_places(saved: Saved) -> Saved:
    """Return what is saved, that of a moved exercise under its new name."""
    for old in MOVED:
        chapter, _, name = old.partition("/")
        mine, place = saved.get(chapter, {}).pop(name, None), moved(chapter, name)
        if mine and place:
            there = saved.setdefault(place[0], {})
            there[place[1]] = _together(mine, there.get(place[1], {}))
    return saved


def _together(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return what is saved of an exercise that was tried under two names."""
    best = max(new, old, key=lambda each: each.get("earned", -1))
    return best | {"attempts": old.get("attempts", 0) + new.get("attempts", 0)}


def _merged(old: dict[str, Any], result: Result) -> dict[str, Any]:
    tried = result.status not in ("todo", "unjudged")
    return {
        "status": "passed" if "passed" in (old.get("status"), result.status) else result.status,
        "earned": max(old.get("earned", 0), result.earned),
        "points": result.points,
        "attempts": old.get("attempts", 0) + tried,
    }


@dataclass(frozen=True)
class Chapter:
    """One line of the overview."""

    name: str
    title: str
    points: int
    earned: int


@dataclass(frozen=True)
class Overview:
    """All chapters at a glance: text in a terminal, a table in a notebook."""

    chapters: list[Chapter] = field(default_factory=list)
    note: str = ""
    retired: list[str] = field(default_factory=list)  # what was passed and is no longer in the course

    def __str__(self) -> str:
        width = max((len(chapter.title) for chapter in self.chapters), default=0)
        lines = [f"{c.title:<{width}}  {_bar(c)}  {c.earned:>3} of {c.points}" for c in self.chapters]
        return "\n".join([*lines, self._total(), *filter(None, [self.done_and_retired(), self.note])])

    __repr__ = __str__

    def done_and_retired(self) -> str:
        """Return a line on the exercises that were passed and that the course has no longer, "" for none."""
        return f"Done, retired (no longer in the course): {', '.join(self.retired)}." if self.retired else ""

    def _total(self) -> str:
        earned, points = sum(c.earned for c in self.chapters), sum(c.points for c in self.chapters)
        return f"In all: {earned} of {points} points."

    def _repr_html_(self) -> str:
        rows = "".join(_row(chapter) for chapter in self.chapters)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in (self.done_and_retired(), self.note) if note)
        return f"<table><tbody>{rows}</tbody></table><p><b>{self._total()}</b></p>{notes}"


def progress(notebooks: Path = NOTEBOOKS) -> Overview:
    """Return the points of every chapter, earned and possible."""
    saved, note = load()
    chapters = []
    for path in sorted(notebooks.glob("ch*.ipynb")):
        title, points = _title_and_points(path)
        mine = saved.pop(path.stem, {})
        earned = sum(mine.pop(name)["earned"] for name in points.keys() & mine.keys())
        chapters.append(Chapter(path.stem, title, sum(points.values()), min(earned, sum(points.values()))))
        saved[path.stem] = mine
    retired = [f"{chapter}/{name}" for chapter, left in saved.items() for name in left if left[name]["earned"]]
    return Overview(chapters, note, sorted(retired))


def _title_and_points(path: Path) -> tuple[str, dict[str, int]]:
    """Return a notebook's first heading and the points of its graded cells by their names."""
    notebook = nbformat.read(path, as_version=4)
    headings = (line for cell in notebook.cells for line in cell.source.splitlines() if line.startswith("# "))
    graded = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    points = {each["grade_id"]: int(each["points"]) for each in graded if each.get("points")}
    return next(headings, path.stem).removeprefix("# "), points


def _bar(chapter: Chapter, width: int = 20) -> str:
    full = width * chapter.earned // chapter.points if chapter.points else 0
    return "█" * full + "░" * (width - full)


def _row(chapter: Chapter) -> str:
    percent = 100 * chapter.earned / chapter.points if chapter.points else 0
    bar = (
        "<div style='width:160px;height:10px;border-radius:5px;background:#94a3b855'>"
        f"<div style='width:{percent:.0f}%;height:10px;border-radius:5px;background:#16a34a'></div></div>"
    )
    title = html.escape(chapter.title)
    return (
        f"<tr><td style='text-align:left'>{title}</td><td>{bar}</td><td>{chapter.earned} of {chapter.points}</td></tr>"
    )
