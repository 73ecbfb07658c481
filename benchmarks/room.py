"""How soon the board shows a check, and whether a killed room loses one: `python benchmarks/room.py 30`.

Learners on the loopback each send a check about once a second; after half of the time the room is killed and opened again.
A record's delay counts from its writing to the moment at which the board has it; what was written while the room was away
counts as lost only if it never comes.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from coursekit import link
from coursekit.room.store import Store

SECONDS, PAUSE = 30, 1.0
EXERCISES = ["as_task", "parallel_map", "first_k", "tree_sum", "batched", "bounded_map"]


class Room:
    """`coursekit room` as a process of its own."""

    def __init__(self, path: Path, port: int, board: int):
        command = [
            sys.executable,
            "-m",
            "coursekit.cli",
            "room",
            f"--port={port}",
            f"--board={board}",
            f"--keep={path}",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = ""
        while "Ctrl-C" not in said:
            line = self.process.stdout.readline()  # type: ignore[union-attr]
            assert line, "the room did not open"
            said += line
        self.code, self.key = re.search(r"(\w+-\w+)\"", said)[1], re.search(r"key=(\S+)", said)[1]  # type: ignore[index]


class Watch(threading.Thread):
    """The board: keeps when it first showed each learner's attempt."""

    def __init__(self, board: int, key: str):
        super().__init__(daemon=True)
        self.board, self.key, self.seen = board, key, dict[tuple[str, str, int], float]()

    def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                connection = http.client.HTTPConnection("127.0.0.1", self.board, timeout=30)
                connection.request("GET", "/events", headers={"Cookie": f"room={self.key}"})
                response = connection.getresponse()
                while line := response.readline():
                    if line.startswith(b"data: "):
                        self.take(json.loads(line[6:]))
            time.sleep(0.1)

    def take(self, view: dict) -> None:
        now = time.monotonic()
        for person in view["people"]:
            for name, cell in person["cells"].items():
                for attempt in range(1, cell.get("attempts", 0) + 1):  # what came together is shown together
                    self.seen.setdefault((person["nickname"], name, attempt), now)


class Learner(threading.Thread):
    """A learner's machine: writes a record about once a second, and has it sent by the course's own way."""

    def __init__(self, link_: link.Link, until: float):
        super().__init__(daemon=True)
        self.link, self.until, self.written = link_, until, dict[tuple[str, str, int], float]()
        self.waiting: list[dict] = []

    def run(self) -> None:
        attempts = dict.fromkeys(EXERCISES, 0)
        while time.monotonic() < self.until or self.waiting:
            if time.monotonic() < self.until:
                name = random.choice(EXERCISES)
                attempts[name] += 1
                data = {"exercise": name, "outcome": "wrong", "attempts": attempts[name], "message_id": "abcdef"}
                self.waiting.append(link.record("check", "ch01_tasks", **data))
                self.written[self.link.nickname, name, attempts[name]] = time.monotonic()
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.link.post("/records", {"records": self.waiting[:100]})
                self.waiting = self.waiting[100:]
            time.sleep(random.uniform(0.5, 1.5) * PAUSE)


def main(people: int) -> None:
    """Print the delays and what was lost."""
    folder = Path(tempfile.mkdtemp(prefix="room-benchmark-"))
    port, board = random.sample(range(20_000, 30_000), 2)
    room = Room(folder / "room.db", port, board)
    began = time.monotonic()
    links = []
    for number in range(people):
        os.environ["COURSEKIT_HOME"] = str(folder / f"home-{number}")
        (folder / f"home-{number}").mkdir()
        links.append(link.enter(f"127.0.0.1:{port} {room.code}", f"learner {number}"))
    print(f"{people} joined in {time.monotonic() - began:.1f} s")
    watch = Watch(board, room.key)
    watch.start()
    began = time.monotonic()
    learners = [Learner(each, began + SECONDS) for each in links]
    for learner in learners:
        learner.start()
    time.sleep(SECONDS / 2)
    killed = time.monotonic()
    room.process.send_signal(signal.SIGKILL)
    room.process.wait()
    room = Room(folder / "room.db", port, board)
    back = time.monotonic()
    print(f"killed after {killed - began:.0f} s, back {back - killed:.1f} s later")
    for learner in learners:
        learner.join()
    written = {key: at for learner in learners for key, at in learner.written.items()}
    deadline = time.monotonic() + 20
    while written.keys() - watch.seen and time.monotonic() < deadline:
        time.sleep(0.1)
    room.process.send_signal(signal.SIGINT)
    room.process.wait()
    delays = [
        watch.seen[key] - at for key, at in written.items() if key in watch.seen and not killed - 2 < at < back + 2
    ]
    kept = {record.id for _, _, record in Store(folder / "room.db").records()}
    lost = len(written) - len(kept)
    print(f"{len(written)} records written, {len(kept)} kept")
    low, high = np.percentile(delays, [50, 95])
    print(f"p50 {low:.2f} s p95 {high:.2f} s, lost {lost}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("people", type=int, nargs="?", default=30, help="how many learners")
    main(parser.parse_args().people)
