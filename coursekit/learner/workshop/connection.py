"""The room that a learner has joined: how it is found, known again, and asked."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import secrets
import ssl
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from coursekit.basics.cards import Note
from coursekit.basics.files import write_whole
from coursekit.learner.progress import home, kept
from coursekit.learner.workshop.pairing import Joiner, Mismatch, as_bytes, as_text

PORT = 8765
SECONDS = 4  # that the room may take to answer
OVER = 3 * 3600  # seconds after which a room that has not answered is taken to be over
LINE = 200  # characters of the line that a learner may write beside a raised hand
JOIN = 'from coursekit import join; join("{place} {code}")'  # works in any cell of any edition
NO_WAY = (
    "Nothing answers at {place} ({reason}). Is `coursekit room` running there, and are you on the same network? Guest networks often "
    "isolate laptops from each other: then ask for a hotspot, a router for the room, or a server that everybody can reach."
)
WRONG = (
    "The code {code} is not this room's, or something between you and the room answers in its place. Nothing was sent. "
    "Compare the code with the one on the screen; codes change after many wrong ones."
)

OUTSIDE = Note(
    "You are not in a room",
    f"Your instructor shows what to type: {JOIN.format(place='192.168.1.7', code='QUIET-FALCON')}",
)


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
        with contextlib.suppress(OSError):  # it was left in the meantime
            os.utime(_file())  # says when the room was heard last
        return answer

    def shown(self) -> str:
        """Return what the board calls this learner; raises as `post` does."""
        return str(self.post("/records", {"records": []}).get("nickname", self.nickname))


def pair(room: str) -> tuple[str, int, str]:
    """Return host, port and code of `192.168.1.7 QUIET-FALCON`; raises NoRoom."""
    found = re.fullmatch(r"\s*([\w.-]+)(?::(\d{1,5}))?\s+([A-Za-z]+[-\s][A-Za-z]+)\s*", room)
    if not found:
        raise NoRoom(
            f"{room!r} is not an address followed by a code. Type both as the screen shows them: 192.168.1.7 QUIET-FALCON"
        )
    host, port, code = found.groups()
    return host, int(port or PORT), code.upper()


def enter(room: str, nickname: str) -> tuple[Link, str]:
    """Return the link to a room that one joins, or is in, and the name that its board shows; raises NoRoom."""
    host, port, code = pair(room)
    before = current()
    if before and (before.host, before.port, before.nickname) == (host, port, nickname):
        with contextlib.suppress(OSError, NoRoom, http.client.HTTPException, ValueError):
            return before, before.shown()
    joiner = Joiner(code)
    try:
        status, answer, seen = _post(host, port, "/join", {"message": as_text(joiner.message)})
        if status != 200:
            raise NoRoom(f"The room refuses: {answer.get('reason', status)}")
        proof = joiner.prove(as_bytes(answer.get("message")), as_bytes(answer.get("proof")), seen)
        data = {"exchange": answer.get("exchange"), "proof": as_text(proof), "nickname": nickname}
        data["token"] = _own_token(seen, nickname)
        status, answer, _ = _post(host, port, "/confirm", data, fingerprint=seen)
    except Mismatch:
        raise NoRoom(WRONG.format(code=code)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoRoom(NO_WAY.format(place=f"{host}:{port}", reason=error)) from None
    if status != 200:
        raise NoRoom(f"The room refuses: {answer.get('reason', status)}")
    return Link(host, port, seen.hex(), answer["id"], answer["token"], nickname), str(answer.get("nickname", nickname))


def keep(link: Link) -> None:
    """Be in a room from now on, in every notebook."""
    home().mkdir(parents=True, exist_ok=True)
    write_whole(_file(), json.dumps(asdict(link)), private=True)


def current() -> Link | None:
    """Return the room that was joined, if any."""
    try:
        return Link(**json.loads(_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def joined() -> bool:
    """Return whether there is a room to tell; costs next to nothing. In grading there is none."""
    return not os.environ.get("NBGRADER_EXECUTION") and _file().exists()


def over() -> bool:
    """Return whether the room has been silent for so long that nobody there waits for an answer."""
    try:
        return time.time() - _file().stat().st_mtime > OVER
    except OSError:
        return True


def forget() -> None:
    """Be in no room from now on."""
    for path in (_file(), _file_of_token()):
        path.unlink(missing_ok=True)


def _own_token(fingerprint: bytes, nickname: str) -> str:
    """Return by which token to be known in a room: if the answer to a join was lost, the next one is by the same person."""
    room = {"fingerprint": fingerprint.hex(), "nickname": nickname}
    last = kept(_file_of_token())
    if last.items() >= room.items() and "token" in last:
        return str(last["token"])
    token = secrets.token_urlsafe(24)
    with contextlib.suppress(OSError):  # on a full disk, a lost answer makes two of them
        home().mkdir(parents=True, exist_ok=True)
        write_whole(_file_of_token(), json.dumps(room | {"token": token}), private=True)
    return token


def _file() -> Path:
    return home() / "room.json"


def _file_of_token() -> Path:
    return home() / "room-token.json"


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
