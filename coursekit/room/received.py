"""Notebooks that are handed in to the room: each lies in its place, as in a course's submitted/, before its receipt is given."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from coursekit.basics.files import write_whole
from coursekit.grading.class_settings import roster_of
from coursekit.grading.hand_in_time import FORMAT
from coursekit.grading.submission import STAMP
from coursekit.room.store import Store

_CHAPTER = re.compile(r"ch\d\d_[a-z][a-z0-9_]{0,40}")
AGAIN = 'hand_in(student="…") with the right name puts it there'
OUTSIDE = "{student} is not on the class's roster. If that is a mistake, " + AGAIN + "."
CONFLICT = (
    "{student} has another {chapter} already, which was not sent by this learner. Both are kept, and your instructor "
    "decides. If {student} is somebody else, " + AGAIN + "."
)


@dataclass(frozen=True)
class Receipt:
    """What a learner gets for a notebook."""

    student: str  # the folder
    chapter: str
    sha256: str
    at: float
    note: str = ""  # what may be wrong with the name, and how to put it right


class HandIns:
    """The folder of all hand-ins, `<student>/<chapter>/<chapter>.ipynb` with `timestamp.txt` beside it.

    One that somebody else sends for the same student and chapter lies beside it, in `<student>/<chapter>-2`: `coursekit grade`
    names it. `on_doubt` is told what the instructor should know.
    """

    def __init__(self, folder: Path, store: Store, on_doubt: Callable[[str], None] = lambda said: None):
        self.folder, self._store, self._on_doubt = folder, store, on_doubt
        self._roster = {student.id.casefold(): student.id for student in roster_of(folder.resolve().parent)}

    def take(self, person: str, chapter: str, student: str, content: bytes, now: float) -> Receipt:
        """Keep a notebook; what comes twice keeps its first time. Raises ValueError for what is no notebook, OSError for no place."""
        if not _CHAPTER.fullmatch(chapter):
            raise ValueError("it does not say which chapter it is")
        if not _is_notebook(content):
            raise ValueError("it is not a notebook")
        student, sha256 = self._spelled(_as_folder(student)), hashlib.sha256(content).hexdigest()
        before = self._store.hand_in(person, chapter) or ("", "", now)
        at = before[2] if before[1] == sha256 else now  # the receipt did not arrive, or the name was wrong
        place = self._place(person, chapter, student, before)
        if place != f"{student}/{chapter}" and self._hash_of(f"{student}/{chapter}", chapter) == sha256:
            return self._receipt(f"{student}/{chapter}", chapter, sha256, at)  # the same, whoever sends it
        if before[:2] != (place, sha256):
            self._store.add_handin(person, place, chapter, sha256, at)
        self._write(place, chapter, content, at)
        if before[0] not in ("", place):
            self._remove(before[0], chapter, before[1])
        return self._receipt(place, chapter, sha256, at)

    def _place(self, person: str, chapter: str, student: str, before: tuple[str, str, float]) -> str:
        """Return where a notebook is to lie: where this person's last one of the chapter lies, else where nobody's does."""
        kept = {row["person"]: row["student"] for row in self._store.handins() if row["chapter"] == chapter}
        others = {place for other, place in kept.items() if other != person}
        for number in count(1):
            place = f"{student}/{chapter}" if number == 1 else f"{student}/{chapter}-{number}"
            theirs = before[1] and self._hash_of(place, chapter) == before[1]  # where the instructor has moved it
            if place == before[0] or (place not in others and (theirs or not os.path.lexists(self.folder / place))):
                return place
        raise AssertionError

    def _receipt(self, place: str, chapter: str, sha256: str, at: float) -> Receipt:
        student, _, folder = place.partition("/")
        outside = OUTSIDE if self._roster and student.casefold() not in self._roster else ""
        note = (CONFLICT if folder != chapter else outside).format(student=student, chapter=chapter)
        if note:
            self._on_doubt(f"{place}: {note}")
        return Receipt(student, chapter, sha256, at, note)

    def _spelled(self, student: str) -> str:
        """Return a student's name as the roster has it, else as a folder has it: capitals make no other student."""
        folders = {path.name.casefold(): path.name for path in self.folder.iterdir()} if self.folder.is_dir() else {}
        return (folders | self._roster).get(student.casefold(), student)

    def _remove(self, place: str, chapter: str, sha256: str) -> None:
        """Remove what somebody has handed in under a wrong name, unless something else lies there since."""
        folder = self.folder / place
        if self._hash_of(place, chapter) == sha256:
            for name in (f"{chapter}.ipynb", STAMP):
                (folder / name).unlink(missing_ok=True)
            for empty in (folder, folder.parent):
                if not any(empty.iterdir()):
                    empty.rmdir()

    def _hash_of(self, place: str, chapter: str) -> str:
        """Return the hash of the notebook in a place, "" where there is none; what a link leads to lies elsewhere."""
        path = self.folder / place / f"{chapter}.ipynb"
        if not path.is_file() or path.resolve() != self.folder.resolve() / place / path.name:
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def _write(self, place: str, chapter: str, content: bytes, at: float) -> None:
        target = self.folder / place
        target.mkdir(parents=True, exist_ok=True)
        if target.resolve() != self.folder.resolve() / place:
            raise OSError(f"{target} is a link, or lies behind one")
        write_whole(target / f"{chapter}.ipynb", content)
        write_whole(target / STAMP, datetime.fromtimestamp(at, UTC).strftime(FORMAT))


def _as_folder(student: str) -> str:
    """Return a name as a folder may have it: letters, digits, dot, dash and underscore; raises ValueError where nothing is left."""
    name = re.sub(r"[^\w.-]+", "_", student).strip("._-")[:40]
    if not name:
        raise ValueError("a student's name has letters or digits")
    return name


def _is_notebook(content: bytes) -> bool:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and isinstance(document.get("cells"), list)
