"""A room of an instructor, which runs in a thread of this process, and what one does in it."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from coursekit.basics.paths import ROOT
from coursekit.learner.progress import home
from coursekit.room.room_command import Serving
from coursekit.room.server import Room
from coursekit.room.store import Store


@dataclass
class Opened:
    """A room, in a thread of this process or in a process of its own."""

    room: Room | SimpleNamespace
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


@contextlib.contextmanager
def in_a_process(path: Path, port: int, board: int) -> Iterator[tuple[Opened, subprocess.Popen]]:
    """Yield a room that `coursekit room` has opened, with its process; what still runs at the end is killed."""
    options = [f"--keep={path}", f"--port={port}", f"--board={board}", "--address=127.0.0.1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "coursekit.cli", "room", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            said = ""
            while "Ctrl-C" not in said:
                line = process.stdout.readline()
                assert line, f"the room did not open: {said}"
                said += line
            code, secret = (re.search(shape, said)[1] for shape in (r'(\w+-\w+)"\)', r"key=(\S+)"))
            yield Opened(SimpleNamespace(code=code, secret=secret), port, board), process
        finally:
            process.kill()


def instructor(room: Opened, **data: str) -> int:
    """Do what a button of the board does; return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", room.board, timeout=10)
    with contextlib.closing(connection):
        headers = {"Cookie": f"room={room.room.secret}", "Content-Type": "application/json"}
        connection.request("POST", "/do", json.dumps(data), headers)
        return connection.getresponse().status


def ask(room: Opened, doing: str, quiz: str = "order_of_get", chapter: str = "ch01_tasks") -> None:
    """Take the question a step further."""
    assert instructor(room, doing=doing, chapter=chapter, name=quiz) == 200


def new_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the learner of this process a home in which nothing is."""
    monkeypatch.setenv("COURSEKIT_HOME", str(folder / "home"))
    home().mkdir()


@pytest.fixture(name="room")
def a_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    new_home(tmp_path, monkeypatch)
    with opened(tmp_path / "room.db") as found:
        yield found
