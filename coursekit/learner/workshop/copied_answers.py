"""Answers that came from the room: kept, so that they count as nobody's, as long as they stand in the cell that was run last."""

import json
from pathlib import Path
from typing import Any

from coursekit.basics.files import write_whole
from coursekit.learner import shell
from coursekit.learner.progress import home


def keep(chapter: str, answers: dict[str, str]) -> None:
    """Keep the code of answers that came from the room, by exercise."""
    kept = _read()
    kept[chapter] = kept.get(chapter, {}) | answers
    write_whole(_file(), json.dumps(kept))


def taken(chapter: str, name: str) -> bool:
    """Return whether the cell that last defined `name` holds the room's answer."""
    code = _read().get(chapter, {}).get(name, "")
    return bool(code) and code.strip() in shell.defining_source(name)


def _read() -> dict[str, Any]:
    try:
        return dict(json.loads(_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _file() -> Path:
    return home() / "taken.json"
