"""The grader's end of a nursery: starts it, asks it for sandboxes, starts it again should it die."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import Any, Self

from coursekit.judging.answer import Unreachable
from coursekit.sandbox import accounts, host, ray_workers
from coursekit.sandbox.limits import Limits

# Memory in huge pages forks in half the time.
AT_START = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", **ray_workers.AT_IMPORT}
START_SECONDS = 180.0  # to import Ray and torch, on a slow or busy machine
REPLY_SECONDS = 60.0  # to fork, or to end what has filled the memory; then something is wrong with the nursery


class NurseryFailed(Unreachable):
    """No sandbox could be made: the machine's fault, not a submission's."""


class Supply:
    """One nursery process, and the grader's line to it.

    It has imported everything (without Ray, torch and the course if `imports` is "plain"), also `modules` that no
    sandbox can open; with "later" it has imported little, and waits for `bring`. It starts while the grader goes on, which `ready`
    and the first sandbox wait for. Without `isolated` there are no namespaces: a submission can then read and end whatever the grader's user
    can. `hidden` folders are empty in every sandbox, wherever they lie.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        isolated: bool = True,
        hidden: Iterable[str] = (),
        imports: str = "all",
        modules: Iterable[str] = (),
    ):
        self.limits, self.isolated = limits, isolated
        self._settings = host.fork_server_settings(isolated, imports, [str(folder) for folder in hidden])
        self._settings |= {"at_start": list(AT_START), "modules": list(modules)}
        self._lock, self._number, self._generation = threading.RLock(), 0, 0
        self._closed, self._starting = False, False
        accounts.sweep()
        self._start()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "coursekit.sandbox.fork_server", str(theirs.fileno())]
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
        self._generation += 1
        self._starting = True
        self._control.sendall(json.dumps(self._settings).encode() + b"\n")
        theirs.close()

    def bring(self, imports: str) -> None:
        """Say what a nursery that was started with "later" has to import."""
        with self._lock:
            self._settings["imports"] = imports  # also where it is replaced
            with contextlib.suppress(OSError):  # it has ended: the wait for it says why
                self._control.sendall(imports.encode())

    def ready(self) -> None:
        """Wait until it has started; raises NurseryFailed with the reason why it cannot."""
        with self._lock:
            if self._starting:
                self._starting = False
                self._reply(START_SECONDS)

    def _say(self, message: dict, descriptors: Iterable[int] = ()) -> dict[str, Any]:
        """Send one message to the nursery and return its reply; raises NurseryFailed."""
        self.ready()
        return self._reply(REPLY_SECONDS, message, descriptors)

    def _reply(self, seconds: float, message: dict | None = None, descriptors: Iterable[int] = ()) -> dict[str, Any]:
        self._control.settimeout(seconds)
        try:
            if message:
                socket.send_fds(self._control, [json.dumps(message).encode()], list(descriptors))
            reply = json.loads(self._control.recv(65_536) or b'{"error": "its process ended"}')
        except OSError as error:  # whatever it would still say is no reply to the next message
            self._process.kill()
            reply = {"error": f"its process does not answer ({error})"}
        if "error" in reply:
            raise NurseryFailed(reply["error"])
        return reply

    def fork(self, request: dict, descriptors: Iterable[int]) -> tuple[int, int]:
        """Return the ticket of a new sandbox; a nursery that has died is replaced first. For `Sandbox`."""
        with self._lock:
            if self._closed:
                raise NurseryFailed("grading was stopped")
            if not self._starting and self._process.poll() is not None:
                self._control.close()
                self._start()
            return self._generation, self._say(request, descriptors)["pid"]

    def has_lost(self, ticket: tuple[int, int]) -> bool:
        """Return whether a sandbox ended because its nursery did, through no fault of its own. For `Sandbox`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)  # the nursery's end is seen a little later than that of its sandboxes
        return ticket[0] != self._generation or self._process.poll() is not None

    def read(self, request: dict, descriptors: Iterable[int]) -> None:
        """Have a reader of Ray's records started, which replies itself. For `Sandbox`."""
        with self._lock:
            self._say(request, descriptors)

    def next_user(self) -> int:
        """Return a user id, of the nursery's namespace, that no other sandbox has."""
        with self._lock:
            self._number += 1
            first, count = self._settings["user"], self._settings["count"]
            return first if count == 1 else first + 1 + (os.getpid() * 1000 + self._number) % (count - 1)

    def end(self, ticket: tuple[int, int]) -> float:
        """End a sandbox's processes; return their CPU seconds once none is left, 0 where they ended with their nursery."""
        generation, pid = ticket
        with self._lock, contextlib.suppress(NurseryFailed):
            if generation == self._generation:
                return float(self._say({"op": "end", "pid": pid})["cpu_seconds"])
        return 0.0

    def close(self) -> None:
        """End the nursery, with all sandboxes that are left."""
        self._closed = True
        self._control.close()
        if self._starting:  # nobody waits for what it imports
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(REPLY_SECONDS)
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
