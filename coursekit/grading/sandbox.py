"""The grader's handle on sandboxes: run a cell, ask for an answer, and end it, whatever is inside.

with Nursery(Limits()) as nursery, nursery.sandbox() as sandbox:
    sandbox.run("def double(x): return 2 * x")
    answer = Answer("double", lambda request: sandbox.ask("double", request))
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from coursekit import wire
from coursekit.answer import Raised
from coursekit.grading import accounts, evidence, host, jail, workers
from coursekit.grading.host import available
from coursekit.grading.limits import Limits, SandboxDied
from coursekit.grading.line import Line, read_all

__all__ = ["CellOutcome", "Limits", "Nursery", "NurseryFailed", "Sandbox", "SandboxDied", "available"]
AT_START = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"
} | workers.AT_IMPORT  # memory in huge pages forks in half the time
START_SECONDS = 180.0  # to import Ray and torch, on a slow or busy machine


class NurseryFailed(RuntimeError):
    """No sandbox could be made: the machine's fault, not a submission's."""


@dataclass(frozen=True)
class CellOutcome:
    """How one cell ran: `error` is what `coursekit.failure.describe` gives, `output` what was printed, at most a limit."""

    status: str  # "ok" or "error"
    error: dict | None
    output: str
    seconds: float


class Sandbox:
    """One learner's process with all that it starts; `close` ends everything."""

    def __init__(self, nursery: "Nursery", limits: Limits):
        self._nursery, self.limits = nursery, limits
        self._account = accounts.open_account(limits)
        self._line = Line(limits, self._account.exceeded)
        self._folder = "" if nursery.isolated else tempfile.mkdtemp(prefix="coursekit-sandbox-")
        self._ticket = self._pid = 0  # the number of its first process as the nursery counts, and as this machine does
        self._spent, self._died = 0.0, ""
        self._usage: dict[str, float] = {}
        try:
            self._start()
        except OSError as error:
            self.close()
            raise NurseryFailed(f"A sandbox could not be made: {error}") from None

    def _start(self) -> None:
        self._user, self._token = self._nursery.next_user(), secrets.token_hex(32)
        home, temporary = (self._folder, self._folder) if self._folder else (jail.HOME, "/tmp")
        variables = host.environment(self.limits.shm_mb, home, temporary) | {"RAY_AUTH_TOKEN": self._token}
        request = {
            "op": "fork",
            "isolated": self._nursery.isolated,
            "user": self._user,
            "disk_mb": self.limits.disk_mb,
            "shm_mb": self.limits.shm_mb,
            "environment": variables,
            "rlimits": self._rlimits(),
        }
        self._ticket = self._nursery.request(request, self._line.far_ends())["pid"]
        self._line.close_far_ends()
        self._pid = self._line.wait_until_ready()
        self._account.add(self._pid)
        self._line.go()

    def _rlimits(self) -> dict[str, int]:
        largest_file = max(self.limits.disk_mb, self.limits.shm_mb) * 2**20
        limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": largest_file, "RLIMIT_NOFILE": 65_536}
        return limits | {"RLIMIT_NPROC": self.limits.processes} if self._nursery.isolated else limits

    def run(self, source: str, seconds: float | None = None) -> CellOutcome:
        """Run a cell; one that takes too long is interrupted, as by the stop button; raises SandboxDied."""
        began = time.monotonic()
        reply, interrupted = self._exchange({"op": "run", "source": source}, seconds)
        error = _checked_error(reply)
        if interrupted:
            error = _too_long(seconds or self.limits.cell_seconds, error)
        return CellOutcome("error" if error else "ok", error, self._line.output(), time.monotonic() - began)

    def ask(self, name: str, request: bytes, seconds: float | None = None) -> bytes:
        """Return the reply to a request of `coursekit.answer.Answer`; raises SandboxDied."""
        if self._nursery.isolated and (wanted := _wanted_evidence(request)):
            return self._evidence(**wanted)
        reply, interrupted = self._exchange({"op": "ask", "name": name, "request": request}, seconds)
        self._line.output()
        if interrupted:
            return wire.encode({"raised": _too_long(seconds or self.limits.cell_seconds, None)})
        return reply

    def evidence(self, operation: str, **window: float | None) -> Any:
        """Return Ray's records as `coursekit.records` does, read by a process that ran nothing of the submission.

        Operations: now, tasks, objects, actors, nodes, stores. Raises Raised where there is no Ray, and SandboxDied.
        """
        reply = wire.decode(self._evidence(operation, window))
        if "raised" in reply:
            raise Raised(**reply["raised"])
        return reply["value"]

    def _evidence(self, operation: str, window: dict) -> bytes:
        if operation == "now":
            return wire.encode({"value": time.time()})
        place, _ = self._exchange({"op": "place"}, 10.0)
        request = {"operation": operation, "window": window, "place": _checked_place(place)}
        request |= {"op": "read", "user": self._user, "environment": {"RAY_AUTH_TOKEN": self._token}}
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._nursery.request(request, [theirs.fileno(), *self._line.namespaces])
            return read_all(ours, self.limits.reply_bytes, evidence.SECONDS)

    def tell(self, name: str, passed: bool) -> None:
        """Tell the notebook's `passed` what the judge says of an exercise; raises SandboxDied."""
        self._exchange({"op": "tell", "name": name, "passed": passed}, 10.0)

    def _exchange(self, message: dict, seconds: float | None) -> tuple[bytes, bool]:
        if self._died:
            raise SandboxDied(self._died)
        left = self.limits.total_seconds - self._spent
        began = time.monotonic()
        try:
            return self._line.exchange(message, min(seconds or self.limits.cell_seconds, left))
        except SandboxDied as died:
            self._died = died.reason
            raise
        finally:
            self._spent += time.monotonic() - began

    def alive(self) -> bool:
        """Return whether the sandbox can still be asked."""
        return not self._died and not self._usage and os.path.exists(f"/proc/{self._pid}")

    def usage(self) -> dict[str, float]:
        """Return `cpu_seconds` and `peak_mb` of all processes together."""
        if self._usage:
            return self._usage
        return {"cpu_seconds": self._account.cpu_seconds(), "peak_mb": self._account.peak_mb()}

    def close(self) -> None:
        """End all processes of the sandbox and wait until none is left."""
        if self._usage:
            return
        self._usage = self.usage() if self._pid else {"cpu_seconds": 0.0, "peak_mb": 0.0}
        self._line.close()
        if self._ticket:
            seconds = self._nursery.end(self._ticket)  # leaves out who was killed at the end
            self._usage["cpu_seconds"] = max(seconds, self._usage["cpu_seconds"])
        self._account.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wanted_evidence(request: bytes) -> dict | None:
    """Return operation and window of a request that asks for Ray's records, None for every other one."""
    try:
        message = wire.decode(request)
    except ValueError:  # it names a function
        return None
    operation = message.pop("op")
    return {"operation": operation, "window": message} if operation in ("now", *evidence.OPERATIONS) else None


def _checked_place(reply: bytes) -> dict:
    """Return where the sandbox's Ray is, {} for nowhere; raises SandboxDied for what cannot be true."""
    try:
        place = wire.decode(reply)
        if not place:
            return {}
        texts: dict = {"address": str(place["address"])[:100], "marked": int(place["marked"])}
        return texts | {"job": bytes(place["job"]).hex()[:100], "task": bytes(place["task"]).hex()[:100]}
    except (ValueError, KeyError, TypeError, IndexError):
        raise SandboxDied("sent something that is not an answer") from None


def _checked_error(reply: bytes) -> dict | None:
    """Return the error that a cell reports, None for none; raises SandboxDied for what is not a report."""
    try:
        error = wire.decode(reply)["error"]
        if error is None:
            return None
        texts = {key: str(error[key])[:2000] for key in ("kind", "message", "where")}
        return {**texts, "todo": error["todo"] is True}
    except (ValueError, KeyError, TypeError, IndexError):
        raise SandboxDied("sent something that is not an answer") from None


def _too_long(seconds: float, error: dict | None) -> dict:
    where = error["where"] if error else ""
    return {"kind": "TimeoutError", "message": f"stopped after {seconds:g} s", "where": where, "todo": False}


class Nursery:
    """Makes sandboxes, each in some ten milliseconds, from one process that has imported everything (without Ray, torch
    and the course if `imports` is False).

    Without `isolated` there are no namespaces: a submission can then read and end whatever the grader's user can. `hidden`
    folders are empty in every sandbox, wherever they lie.
    """

    def __init__(
        self, limits: Limits, *, isolated: bool = True, hidden: Iterable[str] = (), imports: bool | None = True
    ):
        self.limits, self.isolated = limits, isolated
        kind = {True: "all", False: "plain", None: "none"}[imports]
        self._settings = host.settings(isolated, kind, [str(folder) for folder in hidden])
        self._settings["at_start"] = list(AT_START)
        self._lock, self._number = threading.RLock(), 0
        accounts.sweep()
        self._start()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "coursekit.grading.nursery", str(theirs.fileno())]
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=host.environment(self.limits.shm_mb) | AT_START,
            cwd="/",
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
        theirs.close()
        self._control.settimeout(START_SECONDS)
        self._say(self._settings, [])

    def _say(self, message: dict, descriptors: list[int]) -> dict[str, Any]:
        """Send one message to the nursery and return its reply; raises NurseryFailed."""
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
            reply = json.loads(self._control.recv(65_536) or b'{"error": "its process ended"}')
        except OSError as error:
            reply = {"error": str(error)}
        if "error" in reply:
            raise NurseryFailed(f"No sandbox can be made here: {reply['error']}.")
        return reply

    def request(self, message: dict, descriptors: Iterable[int] = ()) -> dict[str, Any]:
        """Return the nursery's reply; a nursery that has died is replaced. For `Sandbox`."""
        with self._lock:
            if self._process.poll() is not None:
                self._control.close()
                self._start()
            return self._say(message, list(descriptors))

    def next_user(self) -> int:
        """Return a user id, of the nursery's namespace, that no other sandbox has."""
        with self._lock:
            self._number += 1
            first, count = self._settings["user"], self._settings["count"]
            return first if count == 1 else first + 1 + (os.getpid() * 1000 + self._number) % (count - 1)

    def end(self, pid: int) -> float:
        """End a sandbox's processes; return their CPU seconds once none is left, 0 where the nursery has died."""
        with contextlib.suppress(NurseryFailed):
            return float(self.request({"op": "end", "pid": pid})["cpu_seconds"])
        return 0.0  # its sandboxes have ended with it

    def sandbox(self) -> Sandbox:
        """Return a new sandbox; raises NurseryFailed."""
        return Sandbox(self, self.limits)

    def close(self) -> None:
        """End the nursery, with all sandboxes that are left."""
        self._control.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
