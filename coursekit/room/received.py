"""Notebooks that are handed in to the room: each lies in its place, as in a course's submitted/, before its receipt is given."""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from coursekit.basics.files import write_whole
from coursekit.grading.hand_in_time import FORMAT
from coursekit.grading.submission import STAMP
from coursekit.room.store import Store

_CHAPTER = re.compile(r"ch\d\d_[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True)
class Receipt:
    """What a learner gets for a notebook."""

    student: str  # the folder
    chapter: str
    sha256: str
    at: float


class HandIns:
    """The folder of all hand-ins, `<student>/<chapter>/<chapter>.ipynb` with `timestamp.txt` beside it."""

    def __init__(self, folder: Path, store: Store):
        self.folder, self._store = folder, store

    def take(self, person: str, chapter: str, student: str, content: bytes, now: float) -> Receipt:
        """Keep a notebook; what comes twice keeps its first time. Raises ValueError for what is no notebook, OSError for no place."""
        if not _CHAPTER.fullmatch(chapter):
            raise ValueError("it is not said which chapter it is")
        if not _is_notebook(content):
            raise ValueError("it is no notebook")
        sha256 = hashlib.sha256(content).hexdigest()
        before = self._store.hand_in(person, chapter)
        if before and before[1] == sha256:  # the receipt did not arrive
            receipt = Receipt(before[0], chapter, sha256, before[2])
        else:
            place = before[0] if before else self._free(person, chapter, _as_folder(student))
            receipt = Receipt(place, chapter, sha256, now)
            self._store.add_handin(person, **asdict(receipt))
        self._write(receipt, content)
        return receipt

    def _free(self, person: str, chapter: str, student: str) -> str:
        """Return the student's name, with a number behind it where somebody else has handed in as that student."""
        for number in count(1):
            name = student if number == 1 else f"{student}-{number}"
            owners = self._store.handed_in_as(name)
            if owners <= {person} and not os.path.lexists(self.folder / name / chapter):
                return name
        raise AssertionError

    def _write(self, receipt: Receipt, content: bytes) -> None:
        target = self.folder / receipt.student / receipt.chapter
        target.mkdir(parents=True, exist_ok=True)
        if target.resolve() != self.folder.resolve() / receipt.student / receipt.chapter:
            raise OSError(f"{target} is a link, or lies behind one")
        stamp = datetime.fromtimestamp(receipt.at, UTC).strftime(FORMAT)
        write_whole(target / f"{receipt.chapter}.ipynb", content)
        write_whole(target / STAMP, stamp)


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
