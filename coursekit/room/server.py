"""The room's two servers: learners send to one, over TLS; the instructor's browser reads the board from the other, on this machine."""

import asyncio
import contextlib
import hashlib
import json
import re
import secrets
import time
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from coursekit.basics.errors import chapter_names
from coursekit.basics.files import MAX_BYTES
from coursekit.basics.html_page import WORDS, html_page
from coursekit.basics.paths import ROOT, STATIC
from coursekit.basics.readers_language import all_told, spoken, told
from coursekit.basics.translations import BOARD
from coursekit.learner.workshop.connection import JOIN, PORT
from coursekit.learner.workshop.pairing import Host, Mismatch, as_bytes, as_text
from coursekit.room.export import as_csv, as_json
from coursekit.room.incoming import Event, event_of
from coursekit.room.live_board import Board, Person
from coursekit.room.received import HandIns
from coursekit.room.run_sheet import all_sheets
from coursekit.room.secrets import Certificate, hidden, new_code, new_token
from coursekit.room.sections import Closed, all_sections
from coursekit.room.store import Store
from coursekit.room.votes import all_quizzes

GUESSES = 20  # exchanges without a right proof, after which the code changes
WAIT = 25  # seconds that a copy of 0.2 may wait for another question
PATIENCE = 60  # seconds that an exchange may take
BODY = 64 * 1024  # bytes of a request
MANY = 120  # requests of one learner in a minute
PEOPLE = 1000
PAGE = STATIC / "room/board.html"
SLIDES = ROOT / "build/slides"
SLIDES_POLICY = "default-src 'self' data: 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
COOKIE = "room"
CLOSED = "open the address that `coursekit room` printed"


class Bell:
    """Wakes all who wait for it."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake them."""
        self._rung.set()
        self._rung = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until it rings, or for so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)


@dataclass
class Room:
    """One session: who is here, what they sent, and whom to tell of it."""

    store: Store
    on_code: Callable[[str], None] = lambda code: None
    submitted: Path | None = None  # where hand-ins go
    on_doubt: Callable[[str], None] = lambda said: None  # is told of a hand-in whose student may be wrong
    address: str = "127.0.0.1"  # where learners find it
    port: int = PORT
    board: Board = field(default_factory=Board)

    def __post_init__(self) -> None:
        kept = self.store.room()
        pem, self.code, self.secret = kept or (Certificate.new().pem, new_code(), new_token())
        self.certificate, self.continued = Certificate(pem), kept is not None
        self._keep()
        self._exchanges: dict[str, tuple[Host, float]] = {}
        self._guesses = 0
        self._requests: dict[str, deque[float]] = defaultdict(deque)
        self.changed, self.asked = Bell(), Bell()  # the board, the question before the room
        self.closing = False
        self.handins = HandIns(self.submitted, self.store, self.on_doubt) if self.submitted else None
        for id, nickname in self.store.people().items():
            self.board.people[id] = Person(nickname)
        happened: list[tuple[float, Callable[..., None], Iterable]] = [
            *((at, self.board.take, (person, event)) for person, at, event in self.store.events()),
            *((at, self.board.do, what) for at, *what in self.store.doings()),
        ]
        for at, take, what in sorted(happened, key=itemgetter(0)):
            with contextlib.suppress(ValueError):  # of a quiz or a run sheet that the course has no longer
                take(*what, at)

    def _keep(self) -> None:
        self.store.keep_room(self.certificate.pem, self.code, self.secret)

    @property
    def line(self) -> str:
        """Return what learners type into a cell, now that the code is this one."""
        place = self.address if self.port == PORT else f"{self.address}:{self.port}"
        return JOIN.format(place=place, code=self.code)

    def begin_exchange(self, message: bytes) -> tuple[str, Host]:
        """Answer the first half of a join; each exchange is a guess of the code until it is proven. Raises Mismatch."""
        now = time.monotonic()
        self._exchanges = {key: pair for key, pair in self._exchanges.items() if now - pair[1] < PATIENCE}
        self._guesses += 1
        if self._guesses > GUESSES:
            self.code, self._guesses = new_code(), 1
            self._exchanges.clear()
            self._keep()
            self.on_code(self.code)
        key, host = secrets.token_hex(16), Host(self.code, message, self.certificate.fingerprint)
        self._exchanges[key] = (host, now)
        return key, host

    def join(self, exchange: str, proof: bytes, nickname: str, token: str = "") -> tuple[str, str, str]:
        """Return the id, the token and the name on the board of somebody who has proven to know the code; raises Mismatch.

        The token is the learner's own: who comes with it again has not got the answer.
        """
        host, _ = self._exchanges.pop(exchange, (None, 0.0))
        if host is None or not host.accepts(proof):
            raise Mismatch
        self._guesses -= 1
        if not re.fullmatch(r"[\w-]{32,64}", token) or self.store.has_left(hidden(token)):
            token = new_token()
        id = self.store.person_with(hidden(token))
        if id is None:
            id = secrets.token_hex(8)
            self.store.add_person(id, nickname, hidden(token))
            self.board.people[id] = Person(self.store.people()[id])
            self.changed.ring()
        return id, token, self.board.people[id].nickname

    def too_many(self, person: str) -> bool:
        """Return whether somebody sends more than a person could cause."""
        now, seen = time.monotonic(), self._requests[person]
        while seen and now - seen[0] > 60:
            seen.popleft()
        seen.append(now)
        return len(seen) > MANY

    def take(self, person: str, events: list[Event]) -> None:
        """Keep and show what somebody sent; what has come before is known by its id."""
        now = time.time()
        new = self.store.add(person, events, now)
        for event in new:
            self.board.take(person, event, now)
        if new:
            self.changed.ring()

    def do(self, doing: str, chapter: str, name: str) -> None:
        """Do what the instructor chose, and tell the room; raises ValueError where it does not fit."""
        now = time.time()
        self.board.do(doing, chapter, name, now)
        self.store.add_doing(now, doing, chapter, name)
        self.changed.ring()
        self.asked.ring()

    def catch_up(self, person: str, chapter: str, section: str) -> tuple[str, dict[str, str]]:
        """Return a section that is open and the answers before it, and show who has them; raises Closed or ValueError."""
        title, answers = self.board.sections.answers(chapter, section)
        ids = {name: uuid.uuid5(uuid.NAMESPACE_OID, f"{chapter}/{name}").hex for name in answers}
        self.take(person, [Event(id, "taken", chapter, name) for name, id in ids.items()])
        return title, answers

    def close(self) -> None:
        """End what waits."""
        self.closing = True
        self.changed.ring()
        self.asked.ring()


def public(room: Room) -> Starlette:
    """Return what learners' machines talk to."""

    async def join(request: Request) -> Response:
        data = await _json(request)
        try:
            key, host = room.begin_exchange(as_bytes(data.get("message")))
        except Mismatch:
            return _no(400, "this is not a request to join")
        return JSONResponse({"exchange": key, "message": as_text(host.message), "proof": as_text(host.proof)})

    async def confirm(request: Request) -> Response:
        data = await _json(request)
        nickname = " ".join(str(data.get("nickname", "")).split())[:40]
        if not nickname.isprintable() or not nickname:
            return _no(422, "a nickname has 1 to 40 visible characters")
        if len(room.board.people) >= PEOPLE:
            return _no(503, f"the room is full: {PEOPLE} people")
        try:
            exchange, token = (str(data.get(name, "")) for name in ("exchange", "token"))
            id, token, shown = room.join(exchange, as_bytes(data.get("proof")), nickname, token)
        except Mismatch:
            return _no(403, "this is not the code of this room")
        return JSONResponse({"id": id, "token": token, "nickname": shown})

    async def take(request: Request) -> Response:
        person = _known(room, request)
        shown = room.board.people[person].nickname
        data = await _json(request)
        try:
            found = [event_of(each) for each in data.get("records", [])[:200]]
        except (ValueError, TypeError) as error:
            return _no(422, str(error))
        room.take(person, found)
        return JSONResponse({"taken": len(found), "nickname": shown})

    async def asked(request: Request) -> Response:
        """Answer which question is before the room; a copy of 0.2 that has seen one waits until it is another, or for a while."""
        _known(room, request)
        data = await _json(request)
        deadline = time.monotonic() + WAIT
        while "seen" in data and data["seen"] == room.board.questions.told() and not room.closing:
            if (left := deadline - time.monotonic()) <= 0 or _person(room, request) is None:
                break
            await room.asked.wait(left)
        return JSONResponse({"question": room.board.questions.told()})

    async def hand_in(request: Request) -> Response:
        person = _known(room, request)
        if room.handins is None:
            return _no(403, "this room takes no hand-ins: ask your instructor")
        data = await _json(request, 2 * MAX_BYTES)
        chapter, student = (str(data.get(name, "")) for name in ("chapter", "student"))
        try:
            receipt = room.handins.take(person, chapter, student, as_bytes(data.get("notebook")), time.time())
        except ValueError as error:
            return _no(422, str(error))
        except OSError as error:
            return _no(507, f"the room cannot keep it ({error})")
        return JSONResponse(asdict(receipt))

    async def catch_up(request: Request) -> Response:
        person = _known(room, request)
        data = await _json(request)
        try:
            section, answers = room.catch_up(person, *(str(data.get(name, "")) for name in ("chapter", "section")))
        except Closed as closed:
            return _no(403, str(closed))
        except ValueError as error:
            return _no(422, str(error))
        return JSONResponse({"section": section, "answers": answers})

    async def leave(request: Request) -> Response:
        person = _person(room, request)
        if person:
            room.store.end_person(person)
            room.board.people.pop(person, None)
            room.changed.ring()
            room.asked.ring()
        return JSONResponse({})

    pages = {"/join": join, "/confirm": confirm, "/records": take, "/asked": asked}
    pages |= {"/handin": hand_in, "/catch_up": catch_up, "/leave": leave}
    routes = [Route(path, endpoint, methods=["POST"]) for path, endpoint in pages.items()]
    return Starlette(routes=routes, exception_handlers=_REFUSALS)


def private(room: Room) -> Starlette:
    """Return what the instructor's browser reads, on this machine alone."""

    def refuse_others(request: Request) -> None:
        """Raise HTTPException for any browser but the one with the address that `coursekit room` printed."""
        host = request.headers.get("host", "").rpartition(":")[0]  # a page elsewhere can have its name point to us
        given = request.cookies.get(COOKIE, "")
        if host not in ("127.0.0.1", "localhost") or not secrets.compare_digest(given.encode(), room.secret.encode()):
            raise HTTPException(403, CLOSED)

    async def home(request: Request) -> Response:
        key = request.query_params.get("key")
        if key is not None and secrets.compare_digest(key.encode(), room.secret.encode()):
            response: Response = RedirectResponse(request.url.path, 303)
            response.set_cookie(COOKIE, room.secret, httponly=True, samesite="strict")
            return response
        refuse_others(request)
        page = _page(spoken())
        return HTMLResponse(page, headers={"Content-Security-Policy": _policy(page)})

    async def events(request: Request) -> Response:
        refuse_others(request)
        names = request.query_params.get("names") != "0"

        async def stream() -> AsyncIterator[str]:
            while not room.closing and not await request.is_disconnected():
                view = room.board.view(names) | {"line": room.line}
                yield f"data: {json.dumps(view)}\n\n"
                await room.changed.wait(15)
                await asyncio.sleep(0.2)  # thirty who check at once make one picture

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def slides(request: Request) -> Response:
        """Answer with slides that were made: in a page of the board's own, they may show the votes."""
        refuse_others(request)
        name = request.path_params["name"]
        if name not in chapter_names() or not (path := SLIDES / f"{name}.slides.html").exists():
            return _no(404, f"there are no such slides: make slides name={name}")
        page = await run_in_threadpool(path.read_text, encoding="utf-8")
        return HTMLResponse(page, headers={"Content-Security-Policy": SLIDES_POLICY})

    async def ten_questions(request: Request) -> Response:
        refuse_others(request)
        page = room.board.ten.page()
        return HTMLResponse(page, headers={"Content-Security-Policy": _policy(page)})

    async def choices(request: Request) -> Response:
        refuse_others(request)
        return JSONResponse(await run_in_threadpool(_choices, spoken()))

    async def export(request: Request) -> Response:
        refuse_others(request)
        kind = request.path_params["kind"]
        headers = {"Content-Disposition": f'attachment; filename="room.{kind}"', "Cache-Control": "no-store"}
        if kind == "csv":
            return Response(as_csv(room.store), media_type="text/csv", headers=headers)
        return JSONResponse(as_json(room.store), headers=headers)

    async def do(request: Request) -> Response:
        refuse_others(request)
        if request.headers.get("content-type") != "application/json":  # a form of a page elsewhere
            raise HTTPException(403, CLOSED)
        data = await _json(request)
        try:
            room.do(*(str(data.get(name, "")) for name in ("doing", "chapter", "name")))
        except ValueError as error:
            return _no(409, told(str(error)))
        return JSONResponse({})

    pages = {"/": home, "/projector": home, "/slides/{name}": slides, "/ten_questions": ten_questions}
    pages |= {"/events": events, "/choices": choices, "/export.{kind}": export}
    routes = [Route(path, endpoint) for path, endpoint in pages.items()]
    return Starlette(routes=[*routes, Route("/do", do, methods=["POST"])], exception_handlers=_REFUSALS)


_REFUSALS: Any = {HTTPException: lambda request, error: _no(error.status_code, error.detail)}


@cache
def _page(language: str) -> str:
    """Return the board in the language that the room speaks."""
    texts = all_told(BOARD)
    html, begin, script = PAGE.read_text(encoding="utf-8").partition("<script>")
    html = WORDS.sub(lambda text: text[0].replace(words := text[0].strip(), texts.get(words, words)), html)
    script = script.replace("TEXTS = {}", f"TEXTS = {json.dumps(texts)}".replace("</", r"<\/"), 1)
    return html_page("The room", html + begin + script, "board", language)


def _policy(page: str) -> str:
    """Return what a page may do: run its own script and no other, and be in no frame."""
    script = page.split("<script>")[1].split("</script>")[0]
    digest = as_text(hashlib.sha256(script.encode()).digest())
    own = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    return f"default-src 'self'; {own}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@cache
def _choices(language: str) -> dict[str, Any]:
    """Return what the instructor may choose from, in the language that the room speaks."""
    return {"quizzes": all_quizzes(), "sheets": all_sheets(), "sections": all_sections()}


async def _json(request: Request, most: int = BODY) -> dict[str, Any]:
    """Return the body of a request; raises HTTPException where it is no JSON object, or larger than any of ours."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise HTTPException(413, "too large")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "no JSON") from None
    if not isinstance(data, dict):
        raise HTTPException(400, "no JSON object")
    return data


def _person(room: Room, request: Request) -> str | None:
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    return room.store.person_with(hidden(token)) if token else None


def _known(room: Room, request: Request) -> str:
    """Return who asks; raises HTTPException where the room does not know them, or they ask more than a person could."""
    person = _person(room, request)
    if person is None:
        raise HTTPException(401, "join again: the room does not know you")
    if room.too_many(person):
        raise HTTPException(429, "too many at once")
    return person


def _no(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status)
