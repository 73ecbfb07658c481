"""`coursekit update`: brings the new version's text into the learner's copies, and keeps all that they wrote.

Nothing is lost when it is killed: each file is replaced in one step, its old state lies beside it, chapters that get
something are written before those that it comes from, and the originals, which say what is still to do, come last.
"""

from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from coursekit.basics.cards import plural
from coursekit.basics.cells import ANSWER, PREDICT
from coursekit.basics.files import write_whole
from coursekit.basics.paths import ROOT
from coursekit.basics.readers_language import choose, chosen, taken_up, told
from coursekit.basics.translations import SOURCE, existing_language, languages
from coursekit.learner.overview import overview
from coursekit.machine import copies, linked
from coursekit.machine.merge import Carried, Chapter, Merge, by_name, source_of

RELOAD = "If a notebook is open in JupyterLab, choose File → Reload Notebook from Disk, then run it from the top."
UP_TO_DATE = "brought up to date"


@dataclass
class Report:
    """What an update did, a line for each chapter that changed, and what a person has to fix."""

    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class Copy:
    """A chapter's notebooks: the original, the learner's, the course's; an empty one where there is none.

    `new` is in the learner's language, and so is `built`, its cells as the course wrote them; `published` is English.
    """

    name: str
    version: str
    original: NotebookNode
    mine: NotebookNode
    new: NotebookNode
    built: list[NotebookNode]
    published: NotebookNode

    def chapter(self) -> Chapter:
        """Return the chapter for a merge."""
        return Chapter(self.version, by_name(self.original.cells), self.mine.cells, by_name(self.new.cells))

    def is_current(self) -> bool:
        """Return whether the course's text in the copy is that of the course, apart from what somebody has edited in notebooks/."""
        return self.original.cells == self.built

    def is_untouched(self) -> bool:
        """Return whether the learner has written and run nothing."""
        return _shown(self.mine) == _shown(self.original)


def switch(root: Path, language: str) -> Report:
    """Bring the learner's copies into a language, and to the version of the course, unless they are in that language already."""
    if not language or existing_language(language, root) == chosen(root):
        return Report()
    with copies.writing(root):
        choose(root, language)
    with taken_up(root):
        report = update(root)
        news = [line for line in report.lines if not line.endswith(told(UP_TO_DATE))]
        now = f"The text of your notebooks is now in {language}; what is marked EN isn't translated yet."
        if language == SOURCE:
            now = f"The text of your notebooks is now in {language}."
        return Report([told(line) for line in (now, *news)], [*map(told, report.problems)])


def update(root: Path = ROOT) -> Report:
    """Bring the learner's copies to the version of the course; where there are none, make them."""
    if not copies.copied(root):
        return Report([copies.added(copies.fill(root))])
    with copies.writing(root):
        here, others = copies.course_version(root), copies.other_versions(root)
        report = Report()
        found = _readable(root, report)
        merge = Merge({name: copy.chapter() for name, copy in found.items()})
        for name in _receivers_first(merge):
            report.lines += _write(root, found[name], merge)
        for copy in found.values():
            if not copy.new.cells:
                copies.original(root, copy.name).unlink(missing_ok=True)
            elif copy.version != here or not copies.is_current(root, copy.name):
                copies.keep_original(root, copy.name, copy.published)
        linked.write(root, chosen(root))
    if not (others or report.lines or report.problems):
        return Report([f"Your notebooks already have the course's text, version {here}, so there is nothing to do."])
    if others:
        report.lines.insert(0, f"From version {', '.join(others)} to {here}; CHANGELOG.md says what is new.")
    if not report.problems:
        report.lines += filter(None, [overview(root / "notebooks").done_and_retired()])
    return Report([*report.lines, RELOAD], report.problems)


def _readable(root: Path, report: Report) -> dict[str, Copy]:
    """Return the chapters of both versions; one that cannot be read is left alone, and said."""
    found = {}
    for name in sorted({*copies.copied(root), *copies.chapters(root)}):
        try:
            found[name] = _copy(root, name)
        except copies.Unreadable as error:
            report.problems.append(str(error))
    return found


def _copy(root: Path, name: str) -> Copy:
    mine = _read(copies.work(root, name))
    try:
        original = _read(copies.original(root, name))
    except copies.Unreadable:
        original = nbformat.v4.new_notebook()
    # What the course once wrote is not the learner's, also where its original was lost, or an old copy brought back by hand.
    published, known = _read(copies.published(root, name)), by_name(original.cells)
    for old, cell in by_name(
        copies.as_built(mine.cells) + _translated(mine.cells, published.cells, name, root)
    ).items():
        if old not in known or cell.source != known[old].source:
            known[old] = cell
    original.cells = list(known.values())
    new = linked.for_copy(published.cells, name, chosen(root), root)
    return Copy(
        name,
        copies.version(root, name),
        original,
        mine,
        new=NotebookNode(published | {"cells": new}),
        built=copies.as_built(published.cells, new),
        published=published,
    )


def _translated(mine: list[NotebookNode], cells: list[NotebookNode], name: str, root: Path) -> list[NotebookNode]:
    """Return the learner's cells of text that are the course's in some language."""
    versions = [copies.as_built(cells, linked.for_copy(cells, name, language, root)) for language in languages(root)]
    known = {(cell.id, source_of(cell)) for version in versions for cell in version if cell.cell_type == "markdown"}
    return [cell for cell in mine if (cell.id, source_of(cell)) in known]


def _read(path: Path) -> NotebookNode:
    return copies.read(path) if path.exists() else nbformat.v4.new_notebook()


def _receivers_first(merge: Merge) -> list[str]:
    """Return the chapters, each before those that it gets something from: what moves is in two files, never in none."""
    seen, order = set[str](), list[str]()

    def add(name: str) -> None:
        if name not in seen:
            seen.add(name)
            for other, carried in merge.carried.items():
                if name in carried.givers:
                    add(other)
            order.append(name)

    for name in merge.chapters:
        add(name)
    return order


def _write(root: Path, copy: Copy, merge: Merge) -> list[str]:
    """Write one of the learner's copies, its old state beside it; return a line on it, none where nothing is new."""
    path, carried = copies.work(root, copy.name), merge.carried[copy.name]
    old = path.read_bytes() if path.exists() else b""
    if copy.is_current() and old and not carried.givers:
        return []
    kept = _free_name(path, copy.version, old)
    if copy.new.cells and (content := _content(root, copy, merge, kept.name)) != old:
        if old and not copy.is_untouched():
            write_whole(kept, old)
        write_whole(path, content)
        return [_line(copy, carried, kept)]
    if old and not copy.new.cells:
        path.rename(kept)
        return [f"{copy.name} is no longer in the course; your copy is now {kept.name}"]
    return []


def _content(root: Path, copy: Copy, merge: Merge, old_file: str) -> bytes:
    """Return the new file: the course's own bytes where nothing of the learner's is in it."""
    cells = merge.cells(copy.name, old_file)
    notebook = copy.mine if copy.mine.cells and cells != copy.new.cells else copy.new
    return copies.text_of(NotebookNode(notebook | {"cells": cells})).encode()


def _free_name(path: Path, version: str, content: bytes) -> Path:
    """Return a name beside a file for its old state: one that is free, or that has this very content."""
    again = chain([""], (f"-{number}" for number in count(2)))
    names = (path.with_name(f"{path.stem}.{version}{number}.ipynb") for number in again)
    return next(name for name in names if not name.exists() or name.read_bytes() == content)


def _in_a_new_form(copy: Copy, answers: list[str]) -> str:
    old, new = by_name(copy.original.cells), by_name(copy.new.cells)
    names = [name for name in answers if name in old and source_of(old[name]) != source_of(new[name])]
    if not names:
        return ""
    exercises = ", ".join(name.removeprefix(ANSWER) for name in names)
    return f"in a new form, so compare with notebooks/{copy.name}.ipynb: {exercises}"


def _line(copy: Copy, carried: Carried, kept: Path) -> str:
    answers = [name for name in carried.instead if name.startswith(ANSWER)]
    guesses = [name for name in carried.instead if name.startswith(PREDICT)]
    own = len(carried.instead) - len(answers) - len(guesses) + sum(map(len, carried.after.values()))
    parts = [
        "new" if not copy.mine.cells else "",
        f"{plural(len(answers), 'answer')} carried over" if answers else "",
        f"{plural(len(guesses), 'prediction')} carried over" if guesses else "",
        _in_a_new_form(copy, answers),
        f"{plural(own, 'cell')} of your own" if own else "",
        f"{plural(len(carried.left), 'cell')} without a place, now at the end" if carried.left else "",
        f"your old file is {kept.name}" if kept.exists() else "",
    ]
    return f"{copy.name}: {', '.join(map(told, filter(None, parts))) or told(UP_TO_DATE)}"


def _shown(notebook: NotebookNode) -> list:
    return [(cell.cell_type, source_of(cell), cell.get("outputs", [])) for cell in notebook.cells]
