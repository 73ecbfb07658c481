"""What a learner has earned so far: one JSON file in the user's data folder, safe with two notebooks at once.

Other files there are kept the same way: `locked`, `read`.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import filelock
import platformdirs

from coursekit.basics.files import write_whole
from coursekit.judging.result import Result
from coursekit.learner.renamed_exercises import MOVED, moved

# chapter → exercise → status, earned, points, attempts; in seconds since 1970, `at` for the last attempt and `passed` for the
# first that passed; `seconds` is the time spent until then, None where a pause makes it unknown
Saved = dict[str, dict[str, dict[str, Any]]]
T = TypeVar("T")
TIMES = ("at", "passed", "seconds")
PAUSE = 30 * 60  # who checks nothing for so many seconds has been away


def home() -> Path:
    """Return the folder that keeps a user's progress; the environment variable COURSEKIT_HOME names another."""
    return Path(os.environ.get("COURSEKIT_HOME") or platformdirs.user_data_dir("coursekit"))


def now() -> float:
    """Return the seconds since 1970, from which all dates and times of a learner's files come."""
    return time.time()


def kept(path: Path) -> dict[str, Any]:
    """Return what a small JSON file keeps, {} where there is none that can be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def save(result: Result, seconds: float | None = None) -> str:
    """Add a result to the progress file; return a note for the reader, or "" when all went well.

    What was passed stays passed. A file that cannot be read is set aside, never overwritten. `seconds` have passed since
    the check before this one.
    """
    try:
        with locked("progress") as path:
            saved, note = _read(path)
            old = saved.setdefault(result.chapter, {}).get(result.name, {})
            saved[result.chapter][result.name] = _merged(old, result, seconds)
            write_whole(path, json.dumps({"version": 1, "chapters": saved}, indent=1))
            return note
    except (OSError, filelock.Timeout) as error:
        return f"Your progress could not be saved in {home()} ({error}). The check itself counts in this notebook."


def load() -> tuple[Saved, str]:
    """Return all that is saved, and a note when a damaged file was set aside."""
    try:
        with locked("progress") as path:
            return _read(path)
    except (OSError, filelock.Timeout) as error:
        return {}, f"Your progress in {home()} could not be read ({error})."


def attempts(chapter: str, name: str) -> int:
    """Return how often an exercise was tried: results that were passed, wrong or crashed."""
    return load()[0].get(chapter, {}).get(name, {}).get("attempts", 0)


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Hold a JSON file of the user's data folder for this process alone, and yield its path."""
    home().mkdir(parents=True, exist_ok=True)
    path = home() / f"{name}.json"
    with filelock.FileLock(f"{path}.lock", timeout=10):
        yield path


def read(path: Path, understood: Callable[[Any], T], empty: T) -> tuple[T, str]:
    """Return what a file keeps, `empty` where there is none, and a note when it was damaged: it is then set aside."""
    if not path.exists():
        return empty, ""
    try:
        return understood(json.loads(path.read_text(encoding="utf-8"))), ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        moment = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**6:06d}"
        aside = path.with_name(f"{path.stem}.damaged-{moment}.json")
        path.rename(aside)
        return empty, f"Your {path.stem} file was damaged ({error}). It is kept beside the new one as {aside.name}."


def _read(path: Path) -> tuple[Saved, str]:
    return read(path, _understood, {})


def _understood(content: Any) -> Saved:
    saved = content["chapters"]
    each = [item for items in saved.values() for item in items.values()]
    if not all(isinstance(item["earned"], int) for item in each):
        raise ValueError("points are not numbers")
    if not all(isinstance(item.get(stamp) or 0, int | float) for item in each for stamp in TIMES):
        raise ValueError("times are not numbers")
    return _at_their_places(saved)


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


def _merged(old: dict[str, Any], result: Result, seconds: float | None) -> dict[str, Any]:
    tried = result.status not in ("todo", "unjudged")
    merged = {
        "status": "passed" if "passed" in (old.get("status"), result.status) else result.status,
        "earned": max(old.get("earned", 0), result.earned),
        "points": result.points,
        "attempts": old.get("attempts", 0) + tried,
    }
    merged |= {stamp: old[stamp] for stamp in TIMES if stamp in old}
    if tried:
        merged["at"] = round(now())
    if old.get("status") != "passed":
        spent = [old.get("seconds") if old else 0, seconds if seconds and seconds <= PAUSE else None]
        merged["seconds"] = None if None in spent else round(sum(filter(None, spent)), 1)
        if result.status == "passed":
            merged["passed"] = merged["at"]
    return merged
