"""The learner's cells in a new version of the course: an answer goes to its exercise, an added cell goes after its neighbour.

A cell of the course is known by its exercise's name or by its id. What the learner has not changed is not theirs, and gives
way to the new text; what has no place in the new version comes at the end.
"""

import re
import uuid
import warnings
from collections import defaultdict
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode

from coursekit.basics.cells import ANSWER, PREDICT, defined_names, prediction
from coursekit.learner.renamed_exercises import moved

Cells = dict[str, NotebookNode]  # the course's cells of a chapter, by their names
Place = tuple[str, str]  # a chapter, and the name of a cell in it


def by_name(cells: list[NotebookNode]) -> Cells:
    """Return the cells of the course by their names, in order."""
    return {name_of(cell): cell for cell in cells}


def source_of(cell: NotebookNode) -> str:
    """Return the source of a cell, however its lines end, without trailing blanks."""
    return "\n".join(line.rstrip() for line in cell.source.splitlines()).rstrip()


def name_of(cell: NotebookNode) -> str:
    """Return the name under which a cell is known in all versions of its chapter."""
    if cell.cell_type == "code" and (asked := prediction(cell.source)):
        return PREDICT + asked.name
    return cell.metadata.get("nbgrader", {}).get("grade_id") or cell.id


@dataclass
class Chapter:
    """A chapter as the learner got it, as they have it, and as it is in the new version: empty where it is not there."""

    version: str
    original: Cells
    mine: list[NotebookNode]
    new: Cells

    def names(self) -> list[str]:
        """Return for each of the learner's cells the name of the course's cell that it is, "" for one of their own."""
        course, taken = self.original | self.new, set[str]()
        names = [name_of(cell) if name_of(cell) in course else "" for cell in self.mine]
        lost = course.keys() - set(names)
        for place, cell in enumerate(self.mine):
            name = names[place] or self._guess(cell, lost)
            if self.changed(cell, name):  # of two copies, the second is a cell of their own
                name = "" if name in taken else name
                taken.add(name)
            names[place] = name
        return names

    def changed(self, cell: NotebookNode, name: str) -> bool:
        """Return whether the learner has changed a cell of the course."""
        return bool(name) and source_of(cell) not in [
            source_of(cells[name]) for cells in self._versions() if name in cells
        ]

    def written_by_the_course(self, name: str) -> NotebookNode:
        """Return a cell as the learner got it."""
        return next(cells[name] for cells in self._versions() if name in cells)

    def _versions(self) -> list[Cells]:
        return [self.original, self.new]  # the new one too: an update that was interrupted may have brought it

    def _guess(self, cell: NotebookNode, lost: set[str]) -> str:
        """Return which of the course's cells a cell is that has lost its id and metadata: by its text, or by what it defines."""
        by_text = {source_of(cells[name]): name for cells in self._versions() for name in lost & cells.keys()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            defined = defined_names(cell.source) if cell.cell_type == "code" else []
        answers = (f"{ANSWER}{name}" for name in defined)
        return by_text.get(source_of(cell)) or next((name for name in answers if name in lost), "")


@dataclass
class Carried:
    """What a chapter of the new version gets from the learner, by the name of the cell that it concerns."""

    instead: Cells = field(default_factory=dict)
    outputs: Cells = field(default_factory=dict)
    after: dict[str, list[NotebookNode]] = field(default_factory=lambda: defaultdict(list))
    left: list[NotebookNode] = field(default_factory=list)
    givers: set[str] = field(default_factory=set)  # the other chapters that something came from


class Merge:
    """The learner's cells of all chapters, carried into the new version."""

    def __init__(self, chapters: dict[str, Chapter]):
        self.chapters = chapters
        self.carried = {name: Carried() for name in chapters}
        self._names = {name: chapter.names() for name, chapter in chapters.items()}
        for name in chapters:
            self._carry(name)

    def cells(self, chapter: str, old_file: str) -> list[NotebookNode]:
        """Return the cells of a chapter in the new version with all that is the learner's; `old_file` is named where some is left."""
        carried, cells = self.carried[chapter], list[NotebookNode]()
        for name, cell in self.chapters[chapter].new.items():
            cells.append(_with_the_learners(cell, name, carried))
            cells += [_own(other) for other in carried.after[name]]
        if carried.left:
            cells += [_heading(old_file), *map(_asleep, carried.left)]
        return _with_ids_of_their_own(cells)

    def _carry(self, chapter: str) -> None:
        here = self.chapters[chapter]
        place = (chapter, next(iter(here.new), ""))
        for cell, name in zip(here.mine, self._names[chapter], strict=True):
            home = self._home(chapter, name) if name else None
            if not name:
                self._put_after(chapter, place, cell)
            elif here.changed(cell, name):
                self._put_instead((chapter, name), home, cell)
            elif home:
                self.carried[home[0]].outputs[home[1]] = cell
            place = home or place

    def _home(self, chapter: str, name: str) -> Place | None:
        """Return where a cell of the course is in the new version; None where it is no more."""
        new = {other: here.new for other, here in self.chapters.items()}
        prefix = ANSWER if name.startswith(ANSWER) else ""
        if there := moved(chapter, name.removeprefix(prefix)):
            place = (there[0], prefix + there[1])
            return place if place[1] in new.get(place[0], {}) else None
        if name in new[chapter]:
            return chapter, name
        others = [other for other in new if name in new[other] and name not in self._names_before(other, chapter)]
        return (others[0], name) if len(others) == 1 else None

    def _names_before(self, other: str, chapter: str) -> Cells:
        """Return the cells that another chapter had in the version from which the learner's copy of this one comes."""
        same = self.chapters[other].version == self.chapters[chapter].version
        return self.chapters[other].original if same else {}

    def _put_after(self, chapter: str, place: Place, cell: NotebookNode) -> None:
        if cell.source.strip() and not self._came_before(chapter, place, cell):
            self.carried[place[0]].after[place[1]].append(cell)

    def _put_instead(self, old: Place, home: Place | None, cell: NotebookNode) -> None:
        if home is None:
            self.carried[old[0]].left.append(cell)
            return
        cell, there = _renamed(cell, old[1], home[1]), self.carried[home[0]]
        if self._came_before(old[0], home, cell):
            return
        if self._fits(old, home):
            there.instead[home[1]] = cell
        else:
            there.left.append(cell)

    def _fits(self, old: Place, home: Place) -> bool:
        """Return whether a changed cell can stand in a place: an answer or a guess where no other does, else where the course's text is the same."""
        if old[1].startswith((ANSWER, PREDICT)):
            return home[1] not in self.carried[home[0]].instead and (home == old or not self._answered(home))
        cell, here = self.chapters[home[0]].new[home[1]], self.chapters[old[0]]
        locked = cell.metadata.get("nbgrader", {}).get("locked", False)
        written = here.written_by_the_course(old[1])
        same = cell.source == written.source or cell.id == written.id  # in another language, the id stays
        return not locked and same

    def _answered(self, home: Place) -> bool:
        """Return whether the learner has an answer of another text in a place."""
        here = self.chapters[home[0]]
        cells = zip(here.mine, self._names[home[0]], strict=True)
        return any(name == home[1] and here.changed(cell, name) for cell, name in cells)

    def _came_before(self, chapter: str, place: Place, cell: NotebookNode) -> bool:
        """Return whether a cell from another chapter is there already, from an update that was interrupted."""
        if place[0] == chapter:
            return False
        self.carried[place[0]].givers.add(chapter)
        return cell.source in [other.source for other in self.chapters[place[0]].mine]


def _with_the_learners(cell: NotebookNode, name: str, carried: Carried) -> NotebookNode:
    """Return a cell of the new version: with the learner's answer, or with the outputs of the same code. A check starts without."""
    theirs = carried.instead.get(name)
    if theirs is not None:
        return NotebookNode(theirs | {"id": cell.id, "metadata": cell.metadata})
    ran, is_check = carried.outputs.get(name), cell.metadata.get("nbgrader", {}).get("grade", False)
    if ran is None or is_check or source_of(ran) != source_of(cell):
        return cell
    return NotebookNode(cell | {key: ran[key] for key in ("outputs", "execution_count") if key in ran})


def _renamed(cell: NotebookNode, old: str, new: str) -> NotebookNode:
    """Return an answer under the new name of its exercise."""
    old, new = old.removeprefix(ANSWER), new.removeprefix(ANSWER)
    return NotebookNode(cell | {"source": cell.source if old == new else re.sub(rf"\b{old}\b", new, cell.source)})


def _own(cell: NotebookNode) -> NotebookNode:
    """Return a cell of the learner's own, without the metadata that a copy of a course's cell carries."""
    ours = {"nbgrader", "deletable", "editable"}
    return NotebookNode(cell | {"metadata": {key: value for key, value in cell.metadata.items() if key not in ours}})


def _asleep(cell: NotebookNode) -> NotebookNode:
    """Return a cell that does not run: what has no place any more must not overrule what has one."""
    return nbformat.v4.new_raw_cell(cell.source) if cell.cell_type == "code" else _own(cell)


def _heading(old_file: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(
        "## From your earlier copy\n\n"
        f"The new version has no place for these cells of yours; [{old_file}]({old_file}) shows where they were.\n"
        "Code is kept as plain text, so it does not run: to use a cell again, choose *Code* in the toolbar."
    )


def _with_ids_of_their_own(cells: list[NotebookNode]) -> list[NotebookNode]:
    seen = set[str]()
    for place, cell in enumerate(cells):
        if cell.id in seen:
            cells[place] = NotebookNode(cell | {"id": uuid.uuid4().hex[:8]})
        seen.add(cells[place].id)
    return cells
