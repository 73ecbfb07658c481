"""What goes to the room after `join`, and nothing else.

It is written into a folder first and sent from there, so what could not be sent goes later, also from another notebook.
"""

import contextlib
import json
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from coursekit.basics.cards import Note
from coursekit.basics.files import write_whole
from coursekit.basics.journal import Journal
from coursekit.basics.readers_language import told
from coursekit.judging.result import Result
from coursekit.learner import shell
from coursekit.learner.progress import home
from coursekit.learner.workshop.connection import SECONDS, Link, NoRoom, Refused, current, forget, joined

WAITING = 2_000  # events that wait at most
NEVER = 422  # the status of a room that will not take something, however often it is sent
LONGEST_PAUSE = 15  # seconds between two looks at what waits
NOTEBOOK_SECONDS = 30  # that a room which answers may take for a notebook
LATER = (
    "What you sent is kept on this machine, and delivered when the room answers while a notebook of the course is open."
)
AGAIN = "What you sent could not be kept on this machine either, so run this again later."


def event(kind: str, chapter: str, **more: Any) -> dict:
    """Return what is sent: a dozen words at most, never code, values, outputs, paths or names of accounts."""
    return {"id": uuid.uuid4().hex, "kind": kind, "chapter": chapter} | more


def of_result(result: Result, attempts: int, hints: int) -> dict:
    """Return what is sent of a check."""
    more = {"outcome": result.status, "attempts": attempts, "hints": hints, "message_id": result.message_id}
    return event("check", result.chapter, exercise=result.name, seconds=round(result.seconds, 1), **more)


def tell(data: dict) -> bool:
    """Have an event sent soon, and show what there is to say of earlier ones; return whether it is kept until then."""
    kept = _keep(data)
    resume()
    return kept


def send(data: dict) -> str:
    """Have the room take an event now; return "" once it has, else why not, and whether it is sent later."""
    kept = _keep(data)
    try:
        room = current()
        if room is None:
            raise NoRoom("You have left the room: join again.")
        if not kept:
            room.post("/records", {"records": [data]})
        elif refused := deliver(room).get(data["id"]):
            raise refused
    except Exception as error:
        _sender().wake()
        return trouble(error, kept)
    return ""


def trouble(error: Exception, kept: bool) -> str:
    """Return why the room has not got something, and whether it is sent later."""
    if isinstance(error, NoRoom):
        return f"{error} Then run this again."
    if isinstance(error, Refused) and error.status == NEVER:
        return f"The room does not take it: {error}."
    known = (
        told(f"nothing came within {SECONDS} s")
        if isinstance(error, TimeoutError)
        else getattr(error, "strerror", None)
    )
    return f"The room does not answer ({known or error}). {LATER if kept else AGAIN}"


def resume() -> None:
    """Have what waits sent, where there is a room, and show what there is to say."""
    if joined():
        for note in _sender().wake():
            shell.show(note)


def deliver(room: Link) -> dict[str, Refused]:
    """Send all events that wait, and return why the room will never take some, by their ids. Raises OSError or NoRoom."""
    many, never = 100, dict[str, Refused]()
    while waiting := {path: data for path in _waiting("")[:many] if (data := _read(path))}:
        try:
            room.post("/records", {"records": list(waiting.values())})
        except Refused as refused:
            if refused.status != NEVER:
                raise
            if many > 1:  # one by one, so that no other is lost
                many = 1
                continue
            never |= {data["id"]: refused for data in waiting.values()}
        for path in waiting:
            path.unlink(missing_ok=True)
    return never


def keep_notebook(data: dict[str, str]) -> bool:
    """Keep a notebook until there is a receipt, in place of an older one of its chapter; return whether the disk has room."""
    with contextlib.suppress(OSError):
        write_whole(_of_notebook(data), json.dumps(data))
        return True
    return False


def hand_over(room: Link, data: dict[str, str]) -> Note:
    """Send a notebook; return its receipt, which is kept, or the room's refusal. Raises OSError where it does not answer."""
    try:
        room.shown()  # a room that does not answer is not sent megabytes
        receipt = room.post("/handin", data, NOTEBOOK_SECONDS)
    except (NoRoom, Refused) as refused:
        if isinstance(refused, Refused) and refused.status == 429:  # too many requests: not for good
            raise
        note = Note(f"Not handed in: {data['chapter']}", f"The room refuses it: {refused}", "#dc2626")
    else:
        journal = Journal(home() / "receipts.jsonl")
        if receipt not in journal.lines():
            journal.add(receipt)
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(receipt["at"])))
        remark = receipt.get("note", "")
        what = f"{receipt['chapter']} as {receipt['student']}, {at}. The SHA-256 of what arrived:"
        text = f"{remark} {what}".strip()
        note = Note("Handed in", text, "#16a34a", str(receipt["sha256"]))
    if _read(_of_notebook(data)) == data:  # and no newer one
        _of_notebook(data).unlink(missing_ok=True)
    return note


def notebooks_waiting() -> list[str]:
    """Return the chapters whose notebooks the room has not got yet."""
    return [path.stem for path in _waiting(".notebook")]


def clear() -> None:
    """Make a folder in which nothing waits: another room gets nothing that was meant for the last one."""
    _folder().mkdir(parents=True, exist_ok=True)
    for path in _folder().iterdir():
        path.unlink(missing_ok=True)


class Sender(threading.Thread):
    """Sends what waits, and tries again, less and less often, while the room does not answer."""

    def __init__(self) -> None:
        super().__init__(name="coursekit-room", daemon=True)
        self._wanted = threading.Event()
        self._news: list[Note] = []  # not yet shown
        self._silent = False

    def wake(self) -> list[Note]:
        """Have what waits sent; return what there is to say, once."""
        self._wanted.set()
        news, self._news = self._news, []
        return news

    def run(self) -> None:
        """Work until the notebook ends."""
        pause = LONGEST_PAUSE
        while True:
            self._wanted.wait(pause)  # a terminal may have kept something, and ended
            self._wanted.clear()
            room = current()
            if room is None:
                continue
            try:
                for refused in deliver(room).values():
                    self._say(trouble(refused, kept=False))
                for path in _waiting(".notebook"):
                    if data := _read(path):
                        self._news.append(hand_over(room, data))
                pause, self._silent = LONGEST_PAUSE, False
            except NoRoom as error:
                if current() == room:  # no other was joined in the meantime
                    forget()
                self._say(str(error))
            except Exception as error:
                if not self._silent:
                    self._say(f"{trouble(error, kept=True)} Your work goes on here.")
                pause = min(2 * pause, LONGEST_PAUSE) if self._silent else 1
                self._silent = True
                time.sleep(1)  # being woken does not hurry it more

    def _say(self, text: str) -> None:
        self._news.append(Note("The room", text, "#64748b"))


_senders: dict[int, Sender] = {}


def _sender() -> Sender:
    """Return this process's thread."""
    me = os.getpid()
    if me not in _senders or not _senders[me].is_alive():
        _senders[me] = Sender()
        _senders[me].start()
    return _senders[me]


def _keep(data: dict) -> bool:
    """Keep an event until the room has it; a full disk is no reason to fail a check."""
    with contextlib.suppress(OSError):
        if len(os.listdir(_folder())) < WAITING:
            write_whole(_folder() / f"{time.time_ns():020d}-{data['id']}", json.dumps(data))
            return True
    return False


def _waiting(suffix: str) -> list[Path]:
    """Return what waits, events in their order ("") or notebooks (".notebook")."""
    return sorted(path for path in _folder().iterdir() if path.suffix == suffix) if _folder().exists() else []


def _read(path: Path) -> dict:
    """Return what waits in a file, {} where another notebook has sent it; of what counts for a round, how long ago it was cast as well."""
    try:
        data: dict = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if data.get("kind") in ("vote", "ten"):  # it counts for the round in which it was cast
        data["seconds"] = round(min(max(time.time() - int(path.name[:20]) / 1e9, 0), 100_000), 3)
    return data


def _of_notebook(data: dict[str, str]) -> Path:
    return _folder() / f"{data['chapter']}.notebook"


def _folder() -> Path:
    return home() / "room-outbox"
