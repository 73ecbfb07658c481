"""An entry as it is handed in: one Python file, read and looked at before anything of it runs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from coursekit.basics.errors import CommandError

LARGEST = 100_000  # bytes: an entry is code that learns, not a file with what somebody has learned elsewhere
FORM = "def train(make_envs, budget): ... return policy"
NAME_LETTERS = 40


class EntryFailed(CommandError):
    """An entry that gets no score: the thing, the reason, the next step; `curve` holds what it had reported by then."""

    def __init__(self, message: str, curve: list[tuple[float, float]] | None = None):
        super().__init__(message)
        self.curve = curve or []


@dataclass(frozen=True)
class Entry:
    """One entry: `file` is the name of its file, `name` what the leaderboard calls it."""

    name: str
    file: str
    source: str

    @property
    def fingerprint(self) -> str:
        """Return a few letters that change with every change of the source."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:8]


def read_entry(path: Path, name: str = "") -> Entry:
    """Return the entry in a file; raises EntryFailed where there is none to read."""
    if not path.exists():
        raise EntryFailed(f"There is no {path}. An entry is a Python file with one function: {FORM}.")
    if not path.is_file() or path.suffix != ".py":
        kind = "a folder" if path.is_dir() else "not a Python file"
        raise EntryFailed(f"{path} is {kind}. Put your function in a file that ends in .py: {FORM}.")
    if path.stat().st_size > LARGEST:
        raise EntryFailed(
            f"{path} has {path.stat().st_size} bytes; an entry has at most {LARGEST}: it holds code that trains a policy, "
            f"not weights that were learned before. Leave them out."
        )
    try:
        source = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EntryFailed(f"{path} can't be read ({error}). Save it as UTF-8 text and run this again.") from None
    return Entry(printable(name or path.stem)[:NAME_LETTERS], path.name, source)


def printable(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
