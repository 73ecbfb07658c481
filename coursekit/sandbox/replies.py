"""What a sandbox sends, looked at before it is believed to be what it should be: a place, an error, pictures, texts and files."""

import base64
from dataclasses import dataclass
from pathlib import PurePosixPath

from coursekit.judging import wire
from coursekit.sandbox.limits import BYTES, FILES, SandboxDied, spoken

NO_ANSWER = "sent something that is not an answer"
NAME = 100  # bytes of an address or of one of Ray's ids
TEXT = 2000  # characters of an error that are kept
BEGINNINGS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
KINDS = ("execute_result", "display_data")
NAME_BYTES, DEPTH = 200, 8  # of a file's name, and folders within each other
NOT_KEPT = (".ipynb", ".pyc", ".partial")  # nbgrader's feedback takes each notebook for one that was handed in
IGNORED = ("__pycache__", ".ipynb_checkpoints", "timestamp.txt")


def place(reply: bytes) -> dict:
    """Return where the sandbox's Ray is, {} for nowhere; raises SandboxDied for what cannot be true."""
    told = _told(reply)
    if told == {}:
        return {}
    match told:
        case {"address": str(address), "job": bytes(job), "task": bytes(task), "moment": int(moment)} if (
            max(len(address), len(job), len(task)) <= NAME and 0 <= moment < 2**63
        ):
            return {"address": address, "job": job.hex(), "task": task.hex(), "moment": moment}
    raise SandboxDied(NO_ANSWER)


def error(reply: bytes) -> dict | None:
    """Return the error that a cell reports, None for none; raises SandboxDied for what is not a report."""
    match _told(reply):
        case {"error": None}:
            return None
        case {"error": {"kind": str(kind), "message": str(message), "where": str(where), "todo": todo}}:
            return {"kind": kind[:TEXT], "message": message[:TEXT], "where": where[:TEXT], "todo": todo is True}
    raise SandboxDied(NO_ANSWER)


def _told(reply: bytes) -> object:
    try:
        return wire.decode(reply)
    except ValueError:
        raise SandboxDied(NO_ANSWER) from None


def too_long(seconds: float, error: dict | None) -> dict:
    """Return the error of a cell or call that was interrupted, with the place where it was by then."""
    where = error["where"] if error else ""
    return {"kind": "TimeoutError", "message": f"stopped after {spoken(seconds)}", "where": where, "todo": False}


@dataclass(frozen=True)
class Shown:
    """What a cell showed: `kind` as in a notebook's outputs, its text, and in base64 the picture, "" for none."""

    kind: str
    text: str
    mime: str = ""
    picture: str = ""


def shown_in(reply: bytes) -> list[Shown]:
    """Return what a cell showed, pictures that are none left out; raises SandboxDied for what is not a report."""
    told = _told(reply)
    rows = told.get("shown", []) if isinstance(told, dict) else None
    if not isinstance(rows, list):
        raise SandboxDied(NO_ANSWER)
    return [_shown(row) for row in rows]


def _shown(row: object) -> Shown:
    match row:
        case {"kind": str(kind), "text": str(text), "mime": str(mime), "picture": str(picture)} if kind in KINDS:
            return Shown(kind, text, mime, picture) if _is_a(mime, picture) else Shown(kind, text)
    raise SandboxDied(NO_ANSWER)


def _is_a(mime: str, picture: str) -> bool:
    """Return whether a text is a picture of a kind in base64."""
    try:
        content = base64.b64decode(picture, validate=True)
    except ValueError:
        return False
    return mime in BEGINNINGS and content.startswith(BEGINNINGS[mime])


def files_in(reply: bytes) -> dict[str, bytes]:
    """Return files by their names within a folder, as many as are kept, those left out that could not lie there; {} for what are no files."""
    try:
        found = wire.decode(reply)
    except ValueError:
        return {}
    kept, left = dict[str, bytes](), BYTES
    for name, content in found.items() if isinstance(found, dict) else []:
        if isinstance(content, bytes) and len(content) <= left and len(kept) < FILES and _can_be_kept(name):
            kept[name], left = content, left - len(content)
    return kept


def _can_be_kept(name: object) -> bool:
    """Return whether a file of this name lies below its folder, and is one that nbgrader's tools leave alone."""
    if not isinstance(name, str) or not name.isprintable():
        return False
    parts = PurePosixPath(name).parts
    within = 0 < len(parts) <= DEPTH and str(PurePosixPath(*parts)) == name and not {"/", ".."} & set(parts)
    short = all(len(part.encode()) <= NAME_BYTES for part in parts)
    kept = not any(part.endswith(NOT_KEPT) for part in parts)  # a folder of that name would stand in a notebook's way
    return within and short and kept and not set(IGNORED) & set(parts)
