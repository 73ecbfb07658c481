"""Load for a web service, from a process of its own: requests at set moments, or as fast as users come back, each with its times."""

import contextlib
import http.client
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit


class Load:
    """A load generator at work: another process, which ends by itself, or when the block ends, or with this process.

    `rate` requests a second are due, evenly spaced, from `users`, each with one connection and at most one request under way.
    Without a rate every user sends the next request as soon as the last one is answered.
    """

    def __init__(
        self, url: str, body: dict, seconds: float, rate: float | None = None, users: int = 8, timeout: float = 30
    ):
        settings = {"url": url, "body": body, "seconds": seconds, "rate": rate, "users": users, "timeout": timeout}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "coursekit.given.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(settings) + "\n")
        self._process.stdin.flush()

    @property
    def running(self) -> bool:
        """Return whether the generator is still at work."""
        return self._process.poll() is None

    def rows(self) -> list[dict]:
        """Wait for the end; return a dict for each request, in the order in which they were due.

        `due`, `sent` and `done` are readings of `time.perf_counter()`, which all processes of a machine share; `status` is the HTTP
        status, 0 where no answer came; `answer` is what came back.
        """
        assert self._process.stdout is not None
        text = self._process.stdout.read()
        self._process.wait()
        rows: list[dict] = json.loads(text or "[]")
        return sorted(rows, key=lambda row: row["due"])

    def finish(self) -> None:
        """Let the generator send no more requests; those under way are answered first."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended by itself
            self._process.stdin.write("finish\n")
            self._process.stdin.flush()

    def stop(self) -> None:
        """End the generator, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def generate(url: str, body: dict, seconds: float, rate: float | None = None, users: int = 8) -> list[dict]:
    """Return the rows of a load that lasts this many seconds (see `Load`)."""
    with Load(url, body, seconds, rate, users) as load:
        return load.rows()


def _moments(seconds: float, rate: float | None, finish: threading.Event) -> Iterator[float]:
    """Yield when each request is due; without a rate, at once."""
    start = time.perf_counter()
    for number in itertools.count():
        due = start + number / rate if rate else time.perf_counter()
        if due >= start + seconds or finish.is_set():
            return
        yield due


class _Shared:
    """An iterator that several threads may use."""

    def __init__(self, moments: Iterator[float]):
        self._moments, self._lock = moments, threading.Lock()

    def __iter__(self) -> "_Shared":
        return self

    def __next__(self) -> float:
        with self._lock:
            return next(self._moments)


def _user(url: str, body: str, timeout: float, moments: _Shared, rows: list[dict]) -> None:
    """Send the requests that fall to one user, on one connection."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port, timeout=timeout)
    for due in moments:
        time.sleep(max(0, due - time.perf_counter()))
        row: dict[str, Any] = {"due": due, "sent": time.perf_counter(), "status": 0, "answer": None}
        try:
            connection.request("POST", place.path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read().decode()
            row |= {"status": reply.status, "answer": json.loads(text) if reply.status == 200 else text[:200]}
        except (OSError, http.client.HTTPException, ValueError) as error:
            row["answer"] = type(error).__name__
            connection.close()  # the next request opens it again
        row["done"] = time.perf_counter()
        rows.append(row)


def _main() -> None:
    settings = json.loads(sys.stdin.readline())
    finish, rows = threading.Event(), []  # type: ignore[var-annotated]
    threading.Thread(target=_obey, args=(finish,), daemon=True).start()
    moments = _Shared(_moments(settings["seconds"], settings["rate"], finish))
    arguments = (settings["url"], json.dumps(settings["body"]), settings["timeout"], moments, rows)
    users = [threading.Thread(target=_user, args=arguments) for _ in range(settings["users"])]
    for user in users:
        user.start()
    for user in users:
        user.join()
    json.dump(rows, sys.stdout)


def _obey(finish: threading.Event) -> None:
    """Finish when told to; end at once when the process that started this one is gone."""
    while sys.stdin.readline():
        finish.set()
    os._exit(1)


if __name__ == "__main__":
    _main()
