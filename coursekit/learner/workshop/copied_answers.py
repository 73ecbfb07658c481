"""Answers that came from the room: kept, so that they count as nobody's, as long as they stand in the cell that was run last."""

import json
from pathlib import Path

from coursekit.basics.files import write_whole
from coursekit.learner import shell
from coursekit.learner.progress import home, kept


def keep(chapter: str, answers: dict[str, str]) -> None:
    """Keep the code of answers that came from the room, by exercise."""
    before = kept(_file())
    write_whole(_file(), json.dumps(before | {chapter: before.get(chapter, {}) | answers}))


def taken(chapter: str, name: str) -> bool:
    """Return whether the cell that last defined `name` holds the room's answer."""
    code = kept(_file()).get(chapter, {}).get(name, "")
    return bool(code) and code.strip() in shell.defining_source(name)


def _file() -> Path:
    return home() / "taken.json"
