"""How soon the board shows a check, and whether a killed room loses one: `python benchmarks/room.py 30`.

Learners on the loopback each send a check about once a second; after half of the time the room is killed and opened again.
A record's delay counts from its writing to the moment at which the board has it; what was written while the room was away
counts as lost only if it never comes.

`python benchmarks/room.py --check-cost`: how much longer a check takes with a room that is dead, slow, or hangs.
`python benchmarks/room.py 300 --handins`: so many hand in within a minute, and the room is killed and opened again meanwhile.
"""

import argparse
import base64
import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

import coursekit
from coursekit.basics.cards import Note
from coursekit.basics.paths import ROOT
from coursekit.learner import checks
from coursekit.learner.workshop import connection as link
from coursekit.learner.workshop import outbox
from coursekit.room.secrets import Certificate
from coursekit.room.store import Store

SECONDS, PAUSE = 30, 1.0
CHECKS = 100
HANDING_IN = 60  # seconds in which all hand in
EXERCISES = ["as_task", "parallel_map", "first_k", "tree_sum", "batched", "bounded_map"]


class Room:
    """`coursekit room` as a process of its own."""

    def __init__(self, path: Path, port: int, board: int, *more: str):
        command = [
            sys.executable,
            "-m",
            "coursekit.cli",
            "room",
            f"--port={port}",
            f"--board={board}",
            f"--keep={path}",
            *more,
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
    """A learner's machine: writes an event about once a second, and has it sent by the course's own way."""

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
                self.waiting.append(outbox.event("check", "ch01_tasks", **data))
                self.written[self.link.nickname, name, attempts[name]] = time.monotonic()
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.link.post("/records", {"records": self.waiting[:100]})
                self.waiting = self.waiting[100:]
            time.sleep(random.uniform(0.5, 1.5) * PAUSE)


class Slow(socketserver.StreamRequestHandler):
    """A room that takes three seconds for each answer."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        time.sleep(3)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


class Hanging(socketserver.BaseRequestHandler):
    """A room that takes a call and never says a word."""

    def handle(self) -> None:
        time.sleep(600)


def serving(kind: type[socketserver.BaseRequestHandler] | None, certificate: Certificate) -> int:
    """Serve in a thread; return the port, one at which nothing listens for no kind."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), kind or Hanging)
    server.daemon_threads = True
    if kind is Slow:
        server.socket = certificate.context().wrap_socket(server.socket, server_side=True)
    if kind is None:
        server.server_close()
    else:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def seconds_of_checks(count: int) -> np.ndarray:
    """Return the milliseconds of each of so many checks, a tenth of a second apart."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        checks.check("best_seconds", lambda *inputs: 0)
        found.append(1000 * (time.perf_counter() - began))
        time.sleep(0.1)
    return np.array(found)


def check_cost() -> dict[str, str]:
    """Print the milliseconds of a check without a room, and return what each kind of room adds."""
    figures = {}
    certificate, folder = Certificate.new(), Path(tempfile.mkdtemp(prefix="room-benchmark-"))
    os.environ["COURSEKIT_HOME"] = str(folder)
    (folder / "room-outbox").mkdir()
    coursekit.begin("ch00_start")
    seconds_of_checks(20)
    for name, kind in {"dead": None, "slow": Slow, "hanging": Hanging}.items():
        alone = seconds_of_checks(CHECKS)
        room = link.Link("127.0.0.1", serving(kind, certificate), certificate.fingerprint.hex(), "me", "token", "me")
        (folder / "room.json").write_text(json.dumps(asdict(room)))
        joined = seconds_of_checks(CHECKS)
        (folder / "room.json").unlink()
        extra = np.percentile(joined, [50, 95]) - np.percentile(alone, [50, 95])
        print(f"{name:8} check {np.median(alone):.1f} ms")
        figures[f"wait longer for a check in a {name} room"] = f"p50 {extra[0]:.1f} ms, p95 {extra[1]:.1f} ms"
    return figures


def all_joined(people: int, folder: Path, port: int, code: str) -> list[link.Link]:
    """Return the links of so many learners, each with a home of their own."""
    began, links = time.monotonic(), []
    for number in range(people):
        os.environ["COURSEKIT_HOME"] = str(folder / f"home-{number}")
        (folder / f"home-{number}").mkdir()
        links.append(link.enter(f"127.0.0.1:{port} {code}", f"learner {number}")[0])
    print(f"{people} joined in {time.monotonic() - began:.1f} s")
    return links


def handed_over(each: link.Link, data: dict[str, str]) -> Note | None:
    """Return what the room says to a notebook, None where it does not answer."""
    try:
        return outbox.hand_over(each, data)
    except (OSError, http.client.HTTPException):
        return None


def handins(people: int) -> dict[str, str]:
    """Return how long a receipt takes, and how many hand-ins were lost or came twice."""
    folder = Path(tempfile.mkdtemp(prefix="room-benchmark-"))
    port, board = random.sample(range(20_000, 30_000), 2)
    submitted, more = folder / "submitted", f"--handins={folder / 'submitted'}"
    room = Room(folder / "room.db", port, board, more)
    links = all_joined(people, folder, port, room.code)
    solved = (ROOT / "solutions/ch01_tasks.ipynb").read_text(encoding="utf-8")
    sent, seconds = dict[str, str](), list[float]()

    def hand_in(each: link.Link) -> None:
        time.sleep(random.uniform(0, HANDING_IN))
        content = json.loads(solved)
        content["metadata"]["learner"] = each.id  # no two are alike
        notebook = json.dumps(content).encode()
        data = {"chapter": "ch01_tasks", "student": each.nickname, "notebook": base64.b64encode(notebook).decode()}
        began = time.monotonic()
        while (note := handed_over(each, data)) is None:
            time.sleep(1)
        seconds.append(time.monotonic() - began)
        assert note.title == "Handed in", note
        sent[note.code] = each.nickname

    threads = [threading.Thread(target=hand_in, args=(each,)) for each in links]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(HANDING_IN / 2)
    room.process.send_signal(signal.SIGKILL)
    room.process.wait()
    room = Room(folder / "room.db", port, board, more)
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    room.process.send_signal(signal.SIGINT)
    room.process.wait()
    kept = [hashlib.sha256(path.read_bytes()).hexdigest() for path in submitted.rglob("ch01_tasks.ipynb")]
    stamps = len(list(submitted.rglob("timestamp.txt")))
    low, high = np.percentile(seconds, [50, 95])
    print(f"{people} handed in within {took:.0f} s, {len(sent)} receipts, {stamps} times")
    lost, twice = len(sent.keys() - set(kept)), len(kept) - len(set(kept)) + len(kept) - people
    claim = f"wait for the receipt of a hand-in, with {people} within a minute and the room killed meanwhile"
    return {claim: f"p50 {low:.2f} s, p95 {high:.2f} s, lost {lost}, twice {twice}"}


def delays(people: int) -> dict[str, str]:
    """Return how long the board lags behind, and how much was lost."""
    folder = Path(tempfile.mkdtemp(prefix="room-benchmark-"))
    port, board = random.sample(range(20_000, 30_000), 2)
    room = Room(folder / "room.db", port, board)
    links = all_joined(people, folder, port, room.code)
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
    seconds = [
        watch.seen[key] - at for key, at in written.items() if key in watch.seen and not killed - 2 < at < back + 2
    ]
    kept = {event.id for _, _, event in Store(folder / "room.db").events()}
    lost = len(written) - len(kept)
    print(f"{len(written)} events written, {len(kept)} kept")
    low, high = np.percentile(seconds, [50, 95])
    claim = f"see a check on the board, with {people} learners and the room killed meanwhile"
    return {claim: f"p50 {low:.2f} s, p95 {high:.2f} s, lost {lost}"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("people", type=int, nargs="?", default=30, help="how many learners")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long they work")
    parser.add_argument("--check-cost", action="store_true", help="measure what a bad room costs a check")
    parser.add_argument("--handins", action="store_true", help="measure hand-ins")
    options = parser.parse_args()
    SECONDS = options.seconds
    figures = check_cost() if options.check_cost else (handins if options.handins else delays)(options.people)
    for claim, figure in figures.items():
        print(f"| {claim} | {figure} |")
