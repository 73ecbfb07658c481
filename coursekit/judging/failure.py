"""What went wrong in a learner's code, as plain data: the exception, its message, and the line to look at."""

import contextlib
import re
import sys
import traceback
from typing import Any

from coursekit.judging import wire

STUB_TEXT = "your answer goes here"
STUB = f'raise NotImplementedError("{STUB_TEXT}")'
_CELL = re.compile(r"ipython-input|ipykernel_\d+|<cell|<answer")
_REMOTE_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)')


def describe(error: BaseException) -> dict:
    """Return `kind`, `message`, `where` and `todo` (the stub is still there) of an exception, also one from a Ray worker."""
    text = str(error)
    cause = getattr(error, "cause", None)  # Ray wraps what a task raised, and keeps the original here
    shown = cause if isinstance(cause, BaseException) else error
    message, where = str(shown), _remote_line(text) or _local_line(error)  # Ray's text has the inner one
    if isinstance(shown, SyntaxError) and _CELL.search(str(shown.filename)):  # in the cell itself, none of which ran
        message, where = str(shown.msg), f"line {shown.lineno} of the cell: `{str(shown.text).strip()}`"
    return {
        "kind": type(shown).__name__,
        "message": _shorten(message),
        "where": where,
        "todo": STUB_TEXT in text or STUB_TEXT in str(shown),
    }


def describe_safely(error: BaseException) -> Any:
    """Return what `describe` does, as plain data, also of an exception that raises when it is asked for its text."""
    try:
        return wire.copy(describe(error))
    except BaseException:
        return {"kind": type(error).__name__, "message": "(its message cannot be shown)", "where": "", "todo": False}


def read_the_rest(error: BaseException) -> None:
    """Read what else the code that raised had launched: `ray.get` of a list reads up to the first error, and Ray reports the others.

    What takes longer than a second is left alone.
    """
    if "ray" not in sys.modules:
        return
    with contextlib.suppress(Exception):  # Ray may have ended, or the learner's own threads change what is looked at
        import ray

        kept = [value for frame, _ in traceback.walk_tb(error.__traceback__) for value in frame.f_locals.values()]
        lists = [value if type(value) in (list, tuple, set, dict) else [value] for value in kept]
        refs = list({each for values in lists for each in values if type(each) is ray.ObjectRef})
        if not refs or not ray.is_initialized():
            return
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=1, fetch_local=False)
        for ref in ready:
            with contextlib.suppress(Exception):
                ray.get(ref, timeout=1)


def _shorten(message: str, limit: int = 600) -> str:
    """Return the message without the pages that Ray adds; its end names the cause."""
    message = re.sub(r"\x1b\[[0-9;]*m", "", message).strip()
    return message if len(message) <= limit else f"{message[: limit // 3]} … {message[-limit * 2 // 3 :]}"


def _local_line(error: BaseException) -> str:
    """Return the last line of the learner's own cells in the traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _CELL.search(frame.filename)]
    if not frames:
        return ""
    line, name = _place([(frame.filename, frame.lineno, frame.name) for frame in frames])
    code = (frames[-1].line or "").strip()
    return f"line {line} of the cell with `{name}`: `{code}`" if code else f"line {line} of the cell with `{name}`"


def _remote_line(text: str) -> str:
    """Return the last line of the learner's own cells in the traceback that Ray brought back as text."""
    frames = [match for match in _REMOTE_FRAME.findall(text) if _CELL.search(match[0])]
    if not frames:
        return ""
    line, name = _place(frames)
    return f"line {line} of the cell with `{name}`"


def _place(frames: list) -> tuple[object, str]:
    """Return line and name of the last frame (file, line, function): a comprehension has no name, so that of a function around it."""
    file, line, last = frames[-1]
    names = (name for other, _, name in reversed(frames) if other == file and not name.startswith("<"))
    return line, next(names, last)
