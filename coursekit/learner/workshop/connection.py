"""The learner's side of a room: what is sent after `join`, and nothing else, by a thread that no check waits for.

An event is written into a folder first and sent from there, so what could not be sent goes later, also from another notebook.
"""

import contextlib
import hashlib
import http.client
import json
import os
import re
import ssl
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coursekit.basics.cards import Note
from coursekit.basics.files import write_whole
from coursekit.judging.result import Result
from coursekit.learner.progress import home
from coursekit.learner.workshop.pairing import Joiner, Mismatch, as_bytes, as_text

PORT = 8765
SECONDS = 5  # that the room may take to answer
LINE = 200  # characters of the line that a learner may write beside a raised hand
WAITING = 2_000  # events that wait at most
LONGEST_PAUSE = 60  # seconds between two tries
NO_WAY = (
    "Nothing answers at {place} ({reason}). Is `coursekit room` running there, and are you in the same network? Guest networks often "
    "keep laptops apart: then ask for a hotspot or a router of the room's own, or for a server that all can reach."
)
WRONG = (
    "The code {code} is not this room's, or something between you and the room answers in its place. Nothing was sent. "
    "Compare the code with the one on the screen; codes change after many wrong ones."
)

OUTSIDE = Note("You are in no room", 'Your instructor shows what to type: join("192.168.1.7 QUIET-FALCON").')


class NoRoom(Exception):
    """There is no way to the room; the message says what to do."""


class Refused(OSError):
    """The room has answered and does not take it: the message says why; `status` is HTTP's."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason or f"it answered {status}")
        self.status = status


@dataclass(frozen=True)
class Link:
    """The room that somebody joined: kept in a file, so that every notebook knows it."""

    host: str
    port: int
    fingerprint: str
    id: str
    token: str
    nickname: str

    def post(self, path: str, data: dict, seconds: float = SECONDS) -> dict:
        """Return the room's answer; raises OSError where there is none or it refuses, NoRoom where it does not know us."""
        known = bytes.fromhex(self.fingerprint)
        status, answer, _ = _post(self.host, self.port, path, data, self.token, known, seconds)
        if status == 401:
            raise NoRoom("The room does not know you any more: join again.")
        if status != 200:
            raise Refused(status, str(answer.get("reason", "")))
        return answer


def pair(room: str) -> tuple[str, int, str]:
    """Return host, port and code of `192.168.1.7 QUIET-FALCON`; raises NoRoom."""
    found = re.fullmatch(r"\s*([\w.-]+)(?::(\d{1,5}))?\s+([A-Za-z]+[-\s][A-Za-z]+)\s*", room)
    if not found:
        raise NoRoom(
            f"{room!r} is not an address followed by a code. Type both as the screen shows them: 192.168.1.7 QUIET-FALCON"
        )
    host, port, code = found.groups()
    return host, int(port or PORT), code.upper()


def enter(room: str, nickname: str) -> Link:
    """Join a room and keep the link; raises NoRoom."""
    host, port, code = pair(room)
    joiner = Joiner(code)
    try:
        status, answer, seen = _post(host, port, "/join", {"message": as_text(joiner.message)})
        if status != 200:
            raise NoRoom(f"The room refuses: {answer.get('reason', status)}")
        proof = joiner.prove(as_bytes(answer.get("message")), as_bytes(answer.get("proof")), seen)
        data = {"exchange": answer.get("exchange"), "proof": as_text(proof), "nickname": nickname}
        status, answer, _ = _post(host, port, "/confirm", data, fingerprint=seen)
    except Mismatch:
        raise NoRoom(WRONG.format(code=code)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoRoom(NO_WAY.format(place=f"{host}:{port}", reason=error)) from None
    if status != 200:
        raise NoRoom(f"The room refuses: {answer.get('reason', status)}")
    link = Link(host, port, seen.hex(), answer["id"], answer["token"], nickname)
    _outbox().mkdir(parents=True, exist_ok=True)
    for path in _outbox().iterdir():  # for another room
        path.unlink(missing_ok=True)
    write_whole(_file(), json.dumps(asdict(link)), private=True)
    return link


def current() -> Link | None:
    """Return the room that was joined, if any."""
    try:
        return Link(**json.loads(_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def part() -> bool:
    """Leave the room and forget it; return whether the room heard of it."""
    link = current()
    heard = False
    if link:
        with contextlib.suppress(OSError, NoRoom, http.client.HTTPException, ValueError):
            deliver(link)
            link.post("/leave", {})
            heard = True
    _file().unlink(missing_ok=True)
    return heard


def event(kind: str, chapter: str, **more: Any) -> dict:
    """Return what is sent: a dozen words at most, never code, values, outputs, paths or names of accounts."""
    return {"id": uuid.uuid4().hex, "kind": kind, "chapter": chapter} | more


def of_result(result: Result, attempts: int, hints: int) -> dict:
    """Return what is sent of a check."""
    more = {"outcome": result.status, "attempts": attempts, "hints": hints, "message_id": result.message_id}
    return event("check", result.chapter, exercise=result.name, seconds=round(result.seconds, 1), **more)


def joined() -> bool:
    """Return whether there is a room to tell; costs next to nothing. In grading there is none."""
    return not os.environ.get("NBGRADER_EXECUTION") and _file().exists()


def tell(data: dict) -> Note | None:
    """Have an event sent soon; return a note when the room has just stopped answering. Costs a small file."""
    folder = _outbox()
    with contextlib.suppress(OSError):  # a full disk is no reason to fail a check
        if len(os.listdir(folder)) < WAITING:
            write_whole(folder / f"{time.time_ns():020d}-{data['id']}", json.dumps(data))
    return _sender().nudge()


def deliver(link: Link) -> None:
    """Send all that waits; what the room has taken goes away here. Raises OSError or NoRoom."""
    while paths := sorted(path for path in _outbox().iterdir() if not path.suffix)[:100]:
        link.post("/records", {"records": [json.loads(path.read_text(encoding="utf-8")) for path in paths]})
        for path in paths:
            path.unlink(missing_ok=True)


class Sender(threading.Thread):
    """Sends what waits, and tries again, less and less often, while the room does not answer."""

    def __init__(self) -> None:
        super().__init__(name="coursekit-room", daemon=True)
        self._wanted = threading.Event()
        self._trouble = ""  # not yet told
        self._silent = False

    def nudge(self) -> Note | None:
        """Have what waits sent; return a note on trouble, once."""
        self._wanted.set()
        text, self._trouble = self._trouble, ""
        return Note("The room", text, "#64748b") if text else None

    def run(self) -> None:
        """Work until the notebook ends."""
        pause = 1.0
        while True:
            self._wanted.wait(None if pause == 1 else pause)
            self._wanted.clear()
            link = current()
            if link is None:
                continue
            try:
                deliver(link)
                pause, self._silent = 1.0, False
            except NoRoom as refused:
                _file().unlink(missing_ok=True)
                self._trouble = str(refused)
            except Exception as error:
                if not self._silent:
                    self._trouble = f"It does not answer ({error}). Your work goes on here, and what is missing there is sent later."
                pause, self._silent = min(2 * pause, LONGEST_PAUSE), True
                time.sleep(min(pause, 2))  # nudges do not hurry it


_senders: dict[int, Sender] = {}


def _sender() -> Sender:
    """Return this process's thread."""
    me = os.getpid()
    if me not in _senders or not _senders[me].is_alive():
        _senders[me] = Sender()
        _senders[me].start()
    return _senders[me]


def _file() -> Path:
    return home() / "room.json"


def _outbox() -> Path:
    return home() / "room-outbox"


def _post(
    host: str,
    port: int,
    path: str,
    data: dict,
    token: str = "",
    fingerprint: bytes = b"",
    seconds: float = SECONDS,
) -> tuple[int, dict, bytes]:
    """Return status, answer and the certificate's fingerprint; where one is given, no other is spoken to. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the fingerprint says who it is
    connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
    with contextlib.closing(connection):
        connection.connect()
        seen = hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").digest()
        if fingerprint and seen != fingerprint:
            raise OSError("it is not the room that you joined")
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        connection.request("POST", path, json.dumps(data), headers)
        response = connection.getresponse()
        answer = json.loads(response.read(1_000_000) or b"{}")
        return response.status, answer if isinstance(answer, dict) else {}, seen
