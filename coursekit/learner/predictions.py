"""What a learner commits to: `predict` before a demonstration, `measured` after it, `share` with the room."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coursekit.basics.cards import Note
from coursekit.basics.cpus import cores
from coursekit.basics.files import write_whole
from coursekit.basics.readers_language import with_translation
from coursekit.learner import session
from coursekit.learner.progress import home, kept
from coursekit.learner.workshop import connection, outbox

FIRST = "first"  # the first pair of a prediction and what was measured, for `coursekit.learner.guesses`
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,60}")  # as the room takes it


def predict(name: str, value: Any, options: Sequence[str] = ()) -> Note:
    """Keep what you expect of a demonstration, before you run it: a number, or one of the options; a room sees it if you have joined one."""
    choices = options if isinstance(options, list | tuple) else None  # with a decimal comma, `0,4` is two arguments
    said = None if choices is None else _number(name, value) if not choices else value if value in choices else None
    if said is None:
        listed = ", ".join(f"`{each!r}`" for each in choices or ())
        given = "..." if value is ... else f"{value!r:.80}" + ("" if choices is not None else f", {options!r:.80}")
        words = f"Write one of {listed} in place of `{given}`, then run this cell."
        number = f"Write a number, such as `0.5`, in place of `{given}`, then run this cell."
        return Note("What do you expect?", words if choices else number)
    path = _file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(kept(path) | {"predicted": said, "options": [*options]}))
    _tell("predict", name, options.index(said) if options else said)
    return Note(f"You say {_shown(said)}", "Now run the demonstration.", "#7c3aed")


def measured(name: str, value: Any) -> Note:
    """Compare what came out with what you predicted: a number, or one of the words that you chose from."""
    was = value if isinstance(value, str) else _number(name, value)
    if was is None:
        return Note("Nothing was measured", f"`measured({name!r}, …)` needs a number, or a word.", "#dc2626")
    found = kept(_file(name))
    said, options = found.get("predicted"), found.get("options", [])
    if not isinstance(was, str):
        _tell("measured", name, was)
    elif was in options:
        _tell("measured", name, options.index(was))
    if said is None or type(said) is not type(was):  # nothing was predicted, or a number where there are words today
        return Note(f"It was {_shown(was)}", "You made no prediction. Next time, write one down first.")
    if FIRST not in found:  # what is predicted later is no guess any more
        write_whole(_file(name), json.dumps(found | {FIRST: [said, was]}))
    return Note(f"You said {_shown(said)}, it was {_shown(was)}", _compared(said, was), "#7c3aed")


def share(name: str, value: Any) -> Note:
    """Put a number that you measured on the room's board, beside the number of your machine's cores."""
    if (number := _number(name, value)) is None:
        return Note("Nothing was shared", f"`share({name!r}, …)` needs a number.", "#dc2626")
    if not connection.joined():
        return Note(f"Yours is {_shown(number)}", "In a room, `share` puts it beside those of the others.")
    own = round(cores(), 1)
    if missing := outbox.send(_event("share", name, number, cores=own)):
        return Note(f"Not shared yet: {_shown(number)}", missing, "#64748b")
    return Note(f"Shared: {_shown(number)}", f"The board shows it beside your machine's {own:g} cores.", "#7c3aed")


def _number(name: str, value: Any) -> float | None:
    """Return a number as a learner may give it, None for what is none; raises ValueError for a name that is none."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise with_translation(
            ValueError(f"A name has letters, digits and underscores, as in a variable: not {name!r}.")
        )
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _shown(value: float | str, digits: int = 3) -> str:
    return f"“{value}”" if isinstance(value, str) else f"{float(f'{value:.{digits}g}'):,.15g}"  # 2,630 and not 2.63e+03


def _compared(said: float | str, was: float | str) -> str:
    if isinstance(said, str) or isinstance(was, str):
        return "That's right." if said == was else "What did you leave out?"
    if min(said, was) <= 0 or 1 / 1.25 < was / said < 1.25:
        return "" if was != said else "That's right."
    return f"That is {_shown(was / said, digits=2)} times what you expected: what did you leave out?"


def _tell(kind: str, name: str, value: float) -> None:
    if connection.joined():
        outbox.tell(_event(kind, name, value))


def _event(kind: str, name: str, value: float, **more: float) -> dict:
    return outbox.event(kind, session.chapter(), exercise=name, value=value, **more)


def _file(name: str) -> Path:
    return home() / "predictions" / f"{session.chapter()}.{name}.json"
