"""What a learner has earned so far: one JSON file in the user's data folder, safe with two notebooks at once."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from coursekit.basics.files import write_whole
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
