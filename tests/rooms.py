"""A room of an instructor, which runs in a thread of this process, and what one does in it."""

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from coursekit.learner.progress import home
from coursekit.learner.workshop import live_question
from coursekit.room.room_command import Serving
from coursekit.room.server import Room
from coursekit.room.store import Store
from tests.waiting import until


@dataclass
class Opened:
    """A room that runs in a thread of this process."""

    room: Room
    port: int
    board: int

    @property
    def words(self) -> str:
        """What a learner types."""
        return f"127.0.0.1:{self.port} {self.room.code}"

    def watch(self, path: str = "/events", key: str | None = None) -> dict:
        """Return what the board shows now, as the instructor's browser gets it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.board, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Cookie": f"room={self.room.secret if key is None else key}"})
            response = connection.getresponse()
            if response.status != 200:
                return {"status": response.status}
            return dict(json.loads(response.readline().removeprefix(b"data: ")))

    def person(self, nickname: str) -> dict:
        """Return somebody's row of the board."""
        return next(row for row in self.watch()["people"] if row["nickname"] == nickname)


@contextlib.contextmanager
def opened(path: Path, port: int = 0, submitted: Path | None = None) -> Iterator[Opened]:
    ready: list[Room] = []
    servings: list[Serving] = []
    begun = threading.Event()

    def run() -> None:
        ready.append(Room(Store(path), submitted=submitted))
        servings.append(Serving(ready[0], port, 0))
        begun.set()
        asyncio.run(servings[0].run())
        ready[0].store.close(keep=True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield Opened(ready[0], servings[0].port, servings[0].board)
    finally:
        servings[0].stop()
        thread.join(20)
    assert not thread.is_alive()


def instructor(room: Opened, **data: str) -> int:
    """Do what a button of the board does; return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", room.board, timeout=10)
    with contextlib.closing(connection):
        headers = {"Cookie": f"room={room.room.secret}", "Content-Type": "application/json"}
        connection.request("POST", "/do", json.dumps(data), headers)
        return connection.getresponse().status


def ask(room: Opened, doing: str, quiz: str = "order_of_get", chapter: str = "ch01_tasks") -> None:
    """Take the question a step further, and wait until this learner's notebook has heard of it."""
    assert instructor(room, doing=doing, chapter=chapter, name=quiz) == 200
    until(lambda: (listener := live_question.listen()) and listener.question == room.room.board.questions.told())


def new_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the learner of this process a home in which nothing is."""
    monkeypatch.setenv("COURSEKIT_HOME", str(folder / "home"))
    home().mkdir()


@pytest.fixture(name="room")
def a_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    new_home(tmp_path, monkeypatch)
    with opened(tmp_path / "room.db") as found:
        yield found
