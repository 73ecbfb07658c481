"""Which notebook of the course a hand-in is: by the chapter that it begins, else by its cells, never by its name."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from coursekit.grading.grading_plan import Master
from coursekit.grading.nbgrader_settings import Course
from coursekit.grading.submission import NotGradable


@dataclass(frozen=True)
class Known:
    """A notebook of the course: what one that was handed in can be."""

    assignment: str
    name: str
    chapter: str
    ids: frozenset[str]
    handed_out: frozenset[str]  # its code cells, as learners get them


def known_notebooks(course: Course) -> list[Known]:
    """Return the notebooks of a course, beside what was handed out of each."""
    return [
        _known(assignment, path, course.handed_out(assignment, name))
        for (assignment, name), path in course.notebooks().items()
    ]


def which(notebooks: Sequence[Known], chapter: str, ids: frozenset[str]) -> Known:
    """Return the notebook that begins a chapter, else the one that shares the most cells; raises NotGradable where none is the one."""
    begun = [known for known in notebooks if chapter and known.chapter == chapter]
    if len(begun) == 1:
        return begun[0]
    shared = sorted(begun or notebooks, key=lambda known: -len(ids & known.ids))
    counts = [len(ids & known.ids) for known in shared]
    if counts and counts[0] > 0 and counts[0] not in counts[1:]:
        return shared[0]
    what = (
        f"it begins {chapter}, which is not an assignment of this course"
        if chapter
        else "it begins no chapter, and its cells match no assignment"
    )
    raise NotGradable(f"{what}: the assignments are {', '.join(sorted({known.assignment for known in notebooks}))}")


def unreadable_one(notebooks: Sequence[Known], content: bytes, usual: str, name: str) -> Known | None:
    """Return which notebook a file is that cannot be read, None where nothing says it.

    What counts first is the chapter that it begins, as far as its text goes; then the assignment that is `usual` in its
    download, and its own name.
    """
    begun = re.search(
        rb"begin\(\s*\\?[\"'](\w+)", content.replace(b"\0", b"")
    )  # without what UTF-16 has between letters
    chapter = begun[1].decode(errors="replace") if begun else ""
    for its in (
        [known for known in notebooks if chapter and known.chapter == chapter],
        [known for known in notebooks if known.assignment == usual],
        [known for known in notebooks if known.name in name],
    ):
        if len(its) == 1:
            return its[0]
    return None


def _known(assignment: str, path: Path, handed_out: Path) -> Known:
    master = Master.of(path)
    cells = nbformat.read(handed_out, as_version=4).cells if handed_out.exists() else []
    names = {*master.tests(), *master.others(), *(cell.get("id", "") for cell in master.notebook.cells)}
    code = frozenset(cell.source.strip() for cell in cells if cell.cell_type == "code")
    return Known(assignment, path.stem, master.chapter, frozenset(names - {""}), code)


def ids_of(content: bytes) -> frozenset[str]:
    """Return the ids that the cells of a notebook claim: their own, nbgrader's, and where Colab keeps them."""
    return frozenset(_ids(json.loads(content.decode("utf-8-sig"))))


def _ids(document: dict) -> Iterator[str]:
    cells = document.get("cells")
    for cell in cells if isinstance(cells, list) else []:
        metadata = cell.get("metadata") if isinstance(cell, dict) else None
        places = [cell, metadata, metadata.get("nbgrader")] if isinstance(metadata, dict) else [cell]
        for place in places:
            if isinstance(place, dict):
                yield from (str(place[key]) for key in ("id", "grade_id") if isinstance(place.get(key), str))
