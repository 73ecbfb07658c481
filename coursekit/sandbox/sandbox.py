"""The grader's handle on sandboxes: run a cell, ask for an answer, and end it, whatever is inside.

with Nursery(Limits()) as nursery, nursery.sandbox() as sandbox:
    sandbox.run("def double(x): return 2 * x")
    answer = Answer("double", partial(sandbox.ask, "double"), sandbox.evidence)
"""

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from coursekit.judging import wire
from coursekit.judging.answer import opened
from coursekit.sandbox import accounts, evidence, host, jail, replies
from coursekit.sandbox.conversation import Line, read_all
from coursekit.sandbox.limits import Limits, SandboxDied, spoken
from coursekit.sandbox.nursery_process import NurseryFailed, Supply
from coursekit.sandbox.replies import Shown

__all__ = ["CellOutcome", "Limits", "Sandbox", "SandboxDied"]


@dataclass(frozen=True)
class CellOutcome:
    """How one cell ran: `error` is what `coursekit.judging.failure.describe` gives, `output` what was printed, at most a limit,
    `shown` what was displayed.
    """

    status: str  # "ok" or "error"
    error: dict | None
    output: str
    seconds: float
    shown: list[Shown] = field(default_factory=list)


class Sandbox:
    """One learner's process with all that it starts; `close` ends everything."""

    def __init__(self, nursery: Supply, limits: Limits, cpus: int = 0):
        self._nursery, self.limits, self._cpus = nursery, limits, cpus
        self._account = accounts.open_account(limits)
        self._also: Callable[[], str] = lambda: ""
        self._line = Line(limits, self._exceeded, self._starved)
        self._folder = "" if nursery.isolated else tempfile.mkdtemp(prefix=f"coursekit-sandbox-{os.getpid()}-")
        self._ticket: tuple[int, int] | None = None  # the nursery's name for it
        self.pid = 0  # of its first process, as this machine counts
        self._spent, self._died = 0.0, ""
        self._computed: float | None = 0.0  # CPU seconds before the last message
        self._usage: dict[str, float] = {}
        try:
            self._start()
        except (OSError, RuntimeError, psutil.Error) as error:  # NurseryFailed too, and a thread that cannot start
            self.close()
            raise NurseryFailed(str(error)) from None

    def _start(self) -> None:
        self._user, self._token = self._nursery.next_user(), secrets.token_hex(32)
        home, temporary = (self._folder, self._folder) if self._folder else (jail.HOME, "/tmp")
        variables = host.environment(self.limits.shm_mb, home, temporary) | {"RAY_AUTH_TOKEN": self._token}
        request = {
            "op": "fork",
            "isolated": self._nursery.isolated,
            "cpus": self._cpus,
            "user": self._user,
            "disk_mb": self.limits.disk_mb,
            "shm_mb": self.limits.shm_mb,
            "environment": variables,
            "rlimits": self._rlimits(),
        }
        self._ticket = self._nursery.fork(request, self._line.far_ends())
        self._line.close_far_ends()
        self.pid = self._line.wait_until_ready()
        self._account.add(self.pid)
        self._line.go()

    def _rlimits(self) -> dict[str, int]:
        largest_file = max(self.limits.disk_mb, self.limits.shm_mb) * 2**20
        limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": largest_file, "RLIMIT_NOFILE": 65_536}
        return limits | {"RLIMIT_NPROC": self.limits.processes} if self._nursery.isolated else limits

    def run(self, source: str, seconds: float | None = None) -> CellOutcome:
        """Run a cell; one that takes too long is interrupted, as by the stop button; raises SandboxDied."""
        began = time.monotonic()
        reply, interrupted = self._exchange({"op": "run", "source": source}, seconds)
        error = replies.error(reply)
        if interrupted:
            error = replies.too_long(seconds or self.limits.cell_seconds, error)
        took = time.monotonic() - began
        return CellOutcome("error" if error else "ok", error, self._line.output(), took, replies.shown_in(reply))

    def files(self) -> dict[str, bytes]:
        """Return the files that lie in the notebook's folder now, as far as they can be kept; raises SandboxDied."""
        return replies.files_in(self._exchange({"op": "files"}, 10.0)[0])

    def ask(self, name: str, request: bytes, seconds: float | None = None) -> bytes:
        """Return the reply to a request of `coursekit.judging.answer.Answer`; raises SandboxDied."""
        return self._answered("ask", name, request, seconds)

    def evidence(self, operation: str, seconds: float | None = None, **window: float | None) -> Any:
        """Return Ray's records as `coursekit.ray_bridge.records` does, read by a process that ran nothing of the submission.

        Without isolation the learner's process reads them itself. Operations: tasks, objects, actors, nodes, stores.
        Raises Raised where there is no Ray, and SandboxDied.
        """
        if self._nursery.isolated:
            return opened(self._evidence(operation, window))
        return opened(self._answered("records", operation, wire.encode({"op": "call", "kwargs": window}), seconds))

    def _answered(self, op: str, name: str, request: bytes, seconds: float | None) -> bytes:
        """Return the learner's process's reply to a request, also where it had to be interrupted."""
        reply, interrupted = self._exchange({"op": op, "name": name, "request": request}, seconds)
        self._line.output()
        if interrupted:
            return wire.encode({"raised": replies.too_long(seconds or self.limits.cell_seconds, None)})
        return reply

    def _evidence(self, operation: str, window: dict) -> bytes:
        place, _ = self._exchange({"op": "place"}, 10.0)
        request: dict = {"operation": operation, "window": window, "place": replies.place(place)}
        request |= {"op": "read", "user": self._user, "environment": {"RAY_AUTH_TOKEN": self._token}}
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._nursery.read(request, [theirs.fileno(), *self._line.namespaces])
            records = read_all(ours, self.limits.reply_bytes, evidence.SECONDS)
        if reason := self._account.exceeded():  # and so the reader was ended, too
            self._died = reason
            raise SandboxDied(reason)
        return records

    def tell(self, name: str, passed: bool) -> None:
        """Tell the notebook's `passed` what the judge says of an exercise; raises SandboxDied."""
        self._exchange({"op": "tell", "name": name, "passed": passed}, 10.0)

    def _exchange(self, message: dict, seconds: float | None) -> tuple[bytes, bool]:
        if self._died:
            raise SandboxDied(self._died)
        left = self.limits.total_seconds - self._spent
        allowed = min(seconds or self.limits.cell_seconds, left)
        began, self._computed = time.monotonic(), self._account.seen_cpu_seconds()
        try:
            if left <= 0:
                raise SandboxDied(f"ran longer than {spoken(self.limits.total_seconds)} in all")
            return self._line.exchange(message, allowed)
        except SandboxDied as died:
            self._died = died.reason
            raise
        finally:
            self._spent += min(time.monotonic() - began, allowed)  # what it waited for a CPU beyond that is not its own

    def alive(self) -> bool:
        """Return whether the sandbox can still be asked."""
        return not self._died and not self._usage and psutil.pid_exists(self.pid)

    def lost(self) -> bool:
        """Return whether it ended because its nursery did, or it could not be watched: what ran in it is not to blame."""
        if exceeded := self._account.exceeded():  # whatever became of the nursery, which it may have taken along
            return exceeded == accounts.UNWATCHED
        return self._ticket is not None and self._nursery.has_lost(self._ticket)

    def limit_by(self, exceeded: Callable[[], str]) -> None:
        """Ask this, too, five times a second while a reply is awaited; the reason that it returns ends the sandbox."""
        self._also = exceeded

    def _exceeded(self) -> str:
        return self._also() or self._account.exceeded()

    def _starved(self, seconds: float) -> bool:
        """Return whether its program wants a CPU, and has not had one for this long since the last message."""
        if self._computed is None:
            return False
        used = self._account.cpu_seconds() - self._computed
        return used < seconds and wants_cpu(self.pid)

    def last_output(self) -> str:
        """Return what was printed before the sandbox ended."""
        return self._line.output()

    @property
    def counts_cpu(self) -> bool:
        """Whether the kernel counts its CPU seconds in a control group; else `usage` has those that were seen."""
        return self._account.counts_cpu

    def usage(self) -> dict[str, float]:
        """Return `cpu_seconds` and `peak_mb` of all processes together."""
        if self._usage:
            return self._usage
        return {"cpu_seconds": self._account.cpu_seconds(), "peak_mb": self._account.peak_mb()}

    def close(self) -> None:
        """End all processes of the sandbox and wait until none is left."""
        if self._usage:
            return
        self._usage = self.usage() if self.pid else {"cpu_seconds": 0.0, "peak_mb": 0.0}
        self._line.close()
        if self._ticket is not None:
            seconds = self._nursery.end(self._ticket)  # leaves out who was killed at the end
            self._usage["cpu_seconds"] = max(seconds, self._usage["cpu_seconds"])
        self._account.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wants_cpu(root: int) -> bool:
    """Return whether any thread of a process and all below it runs or waits for a CPU; False where that cannot be known.

    A program that is late and still wants to compute may be late because others have kept the CPUs busy.
    """
    with contextlib.suppress(psutil.Error):
        processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
        return any(_runs(f"/proc/{each.pid}/task/{thread}/stat") for each in processes for thread in _threads(each.pid))
    return False


def _threads(pid: int) -> list[str]:
    with contextlib.suppress(OSError):  # it has just ended
        return os.listdir(f"/proc/{pid}/task")
    return []


def _runs(stat: str) -> bool:
    with contextlib.suppress(OSError):  # the thread has just ended
        return Path(stat).read_text(encoding="utf-8").rpartition(")")[2].split()[:1] == ["R"]
    return False
