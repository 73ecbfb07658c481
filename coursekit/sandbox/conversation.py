"""The grader's end of the line to one sandbox: sends a message, waits for its reply, keeps time and what was printed."""

import array
import contextlib
import json
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable

from coursekit.judging import wire
from coursekit.sandbox import frames
from coursekit.sandbox.limits import Limits, SandboxDied, reason_of, spoken

TICK = 0.2  # seconds between two looks at the limits
STARVED = 4  # times as long as allowed that a program may take which waits for a CPU
GRACE = 5.0  # seconds that a program has to stop after it was interrupted
LAST_WORDS = 2.0  # seconds in which the first process says how the learner's ended
STRANGERS = 1000  # messages that nobody asked for; who sends more is stopped
FLOOD = 200  # times `output_bytes`: who prints more is stopped


class Line:
    """Three descriptors: messages to the learner's process, the line to the sandbox's first process, what is printed."""

    def __init__(self, limits: Limits, exceeded: Callable[[], str], starved: Callable[[float], bool] = lambda _: False):
        self._limits, self._exceeded, self._starved = limits, exceeded, starved
        self._messages, self._learner = socket.socketpair()
        self._first, self._theirs = socket.socketpair()
        self._printed, output = os.pipe()
        self._output = open(output, "wb", buffering=0)  # noqa: SIM115 - closed by close_far_ends
        if hasattr(socket, "SO_PASSCRED"):  # who sent what, with the process id that it has here
            self._first.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        for descriptor in (self._messages.fileno(), self._first.fileno(), self._printed):
            os.set_blocking(descriptor, False)
        self._inbox, self._text, self._count = frames.Inbox(limits.reply_bytes), bytearray(), 0
        self._looked, self._strangers = 0.0, 0
        self._sender, self.namespaces = 0, array.array("i")
        self._outgoing, self._open = memoryview(b""), True
        self._poll = select.poll()

    def far_ends(self) -> list[int]:
        """Return the three descriptors for the sandbox."""
        return [self._learner.fileno(), self._theirs.fileno(), self._output.fileno()]

    def close_far_ends(self) -> None:
        """Let go of the sandbox's ends, once it has them."""
        self._learner.close()
        self._theirs.close()
        self._output.close()

    def close(self) -> None:
        """Close the line: the sandbox's first process ends then, and all others with it."""
        self.close_far_ends()
        self._messages.close()
        self._first.close()
        for descriptor in (self._printed, *self.namespaces):
            os.close(descriptor)

    def wait_until_ready(self, seconds: float = 30.0) -> int:
        """Return the process id of the sandbox's first process, once it is furnished; raises OSError with what went wrong."""
        self._poll.register(self._first, select.POLLIN)
        said = self._last_words(seconds)
        if "ready" not in said:
            raise OSError(said.get("error", "the sandbox did not start"))
        self._poll.register(self._printed, select.POLLIN)
        self._poll.register(self._messages, select.POLLIN)
        return self._sender or int(said["ready"])

    def go(self) -> None:
        """Have the learner's process started."""
        self._first.send(b"g")

    def output(self) -> str:
        """Return what was printed since the last call, at most `output_bytes` of it, and how much more there was."""
        for _ in range(64):  # what lies in the pipe: written before the reply
            if not self._open or not self._read_output():
                break
        kept, more = bytes(self._text), self._count - len(self._text)
        self._text.clear()
        self._count = 0
        note = f"\n… and {more} bytes more." if more else ""
        return kept.decode("utf-8", errors="replace") + note

    def exchange(self, message: dict, seconds: float) -> tuple[bytes, bool]:
        """Return the reply, and whether the program had to be interrupted for it; raises SandboxDied.

        Where others keep the CPUs busy, `seconds` are CPU seconds, as far as the program wants to compute.
        """
        identity = secrets.token_bytes(frames.ID_BYTES)  # nobody can send a reply in advance
        self._outgoing = memoryview(frames.pack(identity, wire.encode(message)))
        deadline, interrupted = time.monotonic() + seconds, False
        latest = time.monotonic() + STARVED * seconds
        while True:
            # Before the look: a reply that lies there by then is found, however late the look is.
            now = time.monotonic()
            self._wait(min(TICK, max(0.0, self._until(deadline) - now)))
            while reply := self._next():
                if reply[0] == identity:
                    return reply[1], interrupted
                self._strangers += 1  # nobody asked for it, so it is nobody's
            if self._strangers > STRANGERS:
                raise SandboxDied("sent something that is not an answer")
            if time.monotonic() - self._looked > TICK and (reason := self._limit_passed()):
                raise SandboxDied(reason)
            if self._count > FLOOD * self._limits.output_bytes:
                raise SandboxDied(f"printed more than {FLOOD * self._limits.output_bytes // 10**6} MB")
            if now >= self._until(deadline):
                if not interrupted and now < latest and self._starved(seconds):
                    deadline = now + TICK
                    continue
                if interrupted:
                    raise SandboxDied(f"ran longer than {spoken(seconds)}")
                with contextlib.suppress(ConnectionError):  # it has just ended, which the next wait sees
                    self._first.send(b"i")
                deadline, interrupted = time.monotonic() + GRACE, True

    def _until(self, deadline: float) -> float:
        """Return until when to wait: a reply that has begun to come may come."""
        return deadline + GRACE if self._inbox.begun() else deadline

    def _next(self) -> tuple[bytes, bytes] | None:
        try:
            return self._inbox.next()
        except frames.Malformed:
            raise SandboxDied("sent something that is not an answer") from None

    def _wait(self, seconds: float) -> None:
        """Wait for whatever comes first and take it in."""
        events = select.POLLIN | (select.POLLOUT if self._outgoing else 0)
        self._poll.modify(self._messages, events)
        ready = dict(self._poll.poll(seconds * 1000))
        if self._printed in ready:
            self._read_output()
        if self._messages.fileno() in ready:
            self._send_and_receive()
        if self._first.fileno() in ready:
            raise SandboxDied(self._end())

    def _send_and_receive(self) -> None:
        piece = b""
        try:
            if self._outgoing:
                self._outgoing = self._outgoing[self._messages.send(self._outgoing) :]
            piece = self._messages.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        if not piece:
            raise SandboxDied(self._end())
        self._inbox.add(piece)

    def _read_output(self) -> int:
        try:
            piece = os.read(self._printed, 1 << 16)
        except BlockingIOError:
            return 0
        if not piece:  # every writer has closed it
            self._poll.unregister(self._printed)
            self._open = False
        self._count += len(piece)
        self._text += piece[: max(0, self._limits.output_bytes - len(self._text))]
        return len(piece)

    def _limit_passed(self) -> str:
        self._looked = time.monotonic()
        return self._exceeded()

    def _end(self) -> str:
        """Return in words how the learner's process ended."""
        said = self._last_words(LAST_WORDS)
        if reason := self._limit_passed():
            return reason
        if "error" in said:
            return f"could not be started ({said['error']})"
        return reason_of(said) if said else "closed its line to the grader"

    def _last_words(self, seconds: float) -> dict:
        """Return what the first process says, {} if it says nothing."""
        line, deadline = b"", time.monotonic() + seconds
        waiting = select.poll()
        waiting.register(self._first, select.POLLIN)
        while not line.endswith(b"\n") and time.monotonic() < deadline:
            try:
                piece, ancillary, _, _ = self._first.recvmsg(4096, 256)
            except BlockingIOError:
                waiting.poll(50)
                continue
            except ConnectionError:  # it ended before it had read what it was sent
                break
            self._keep(ancillary)
            if not piece:
                break
            line += piece
        return json.loads(line) if line.endswith(b"\n") else {}

    def _keep(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        """Keep what comes with the first message: who sent it, and the sandbox's namespaces."""
        for _, kind, data in ancillary:
            if kind == socket.SCM_RIGHTS:
                self.namespaces.frombytes(data)
            else:
                self._sender = struct.unpack_from("i", data)[0]


def read_all(connection: socket.socket, limit: int, seconds: float) -> bytes:
    """Return all that arrives until the other side closes; a reply that says so where it is too long or too late."""
    data, deadline = bytearray(), time.monotonic() + seconds
    while len(data) <= limit:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            piece = connection.recv(1 << 20)
        except TimeoutError:
            break
        if not piece and data:
            return bytes(data)
        if not piece:
            break
        data += piece
    message = "Ray's records could not be read: the reader ended, or they are too many."
    return wire.encode({"raised": {"kind": "RuntimeError", "message": message, "where": "", "todo": False}})
