"""What a learner's machine may send, and nothing else: the room refuses an event that holds more, less, or something longer."""

import re
from dataclasses import dataclass, fields
from typing import Any

from coursekit.learner.workshop.connection import LINE

OUTCOMES = ("passed", "wrong", "todo", "crashed", "unjudged")
_SHAPES = {
    "id": r"[0-9a-f]{32}",
    "kind": r"check|hint|hand|down|vote|ten|predict|measured|share",
    "chapter": r"ch\d\d_[a-z][a-z0-9_]{0,40}",
    "exercise": r"[a-zA-Z_][a-zA-Z0-9_]{0,60}|",
    "outcome": "|".join(OUTCOMES) + "|",
    "message_id": r"[A-Za-z0-9-]{0,60}",
    "choice": r"[a-z]?",
}
_MOST = {"attempts": 100_000, "hints": 1_000, "seconds": 100_000, "poll": 100_000, "cores": 100_000}
LARGEST = 1e12  # number that a learner may predict, measure or share
_RANGES = {name: (0, most) for name, most in _MOST.items()} | {"value": (-LARGEST, LARGEST)}


@dataclass(frozen=True)
class Event:
    """One thing that happened on a learner's machine."""

    id: str  # drawn by the learner's machine: an event that arrives twice counts once
    kind: str  # check, hint, hand (raised), down (the hand), vote, ten (questions), predict, measured, share; taken, which the room itself adds
    chapter: str
    exercise: str = ""
    outcome: str = ""
    attempts: int = 0
    hints: int = 0
    message_id: str = ""
    seconds: float = 0.0  # that a check took; that a vote or ten answers waited until they were sent
    line: str = ""
    poll: int = 0  # the round that a vote is for, 0 where the learner's machine could not ask
    choice: str = ""
    value: float = 0.0  # what was predicted, measured or shared
    cores: float = 0.0  # of the machine that a number was measured on


def event_of(data: Any) -> Event:
    """Return an event made of plain data; raises ValueError that names what does not fit."""
    names = {field.name for field in fields(Event)}
    if not isinstance(data, dict) or not set(data) <= names or not {"id", "kind", "chapter"} <= set(data):
        raise ValueError("an event has the names id, kind, chapter, and some of " + ", ".join(sorted(names)))
    for name, shape in _SHAPES.items():
        if name in data and not (isinstance(data[name], str) and re.fullmatch(shape, data[name])):
            raise ValueError(f"{name} is not what it should be")
    for name, (least, most) in _RANGES.items():
        value = data.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"{name} is not a number from {least:g} to {most:g}")
    line = data.get("line", "")
    if not isinstance(line, str) or len(line) > LINE:
        raise ValueError(f"line is not a text of at most {LINE} characters")
    return Event(**data)
