"""Messages between the grader and a sandbox: four bytes of length, sixteen bytes of id, then the content."""

import socket
import struct
import sys

ID_BYTES = 16
_HEADER = struct.Struct(f">I{ID_BYTES}s")
HEADER_BYTES = _HEADER.size


class Malformed(ValueError):
    """What arrived is not a message."""


def pack(identity: bytes, content: bytes) -> bytes:
    """Return one message as it travels."""
    return _HEADER.pack(len(content), identity) + content


class Inbox:
    """Collects what arrives, in whatever pieces, and gives it back as messages of at most `limit` bytes."""

    def __init__(self, limit: int):
        self._limit, self._bytes = limit, bytearray()

    def add(self, piece: bytes) -> None:
        """Add what has arrived."""
        self._bytes += piece

    def begun(self) -> bool:
        """Return whether there is a part of a message."""
        return bool(self._bytes)

    def next(self) -> tuple[bytes, bytes] | None:
        """Return id and content of the next whole message, None while it is not whole; raises Malformed."""
        if len(self._bytes) < HEADER_BYTES:
            return None
        length, identity = _HEADER.unpack_from(self._bytes)
        if length > self._limit:
            raise Malformed(f"a message of {length} bytes; the limit is {self._limit}")
        end = HEADER_BYTES + length
        if len(self._bytes) < end:
            return None
        content = bytes(memoryview(self._bytes)[HEADER_BYTES:end])
        del self._bytes[:end]
        return identity, content


def receive(connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Return id and content of the next message, waiting for it; None when the other side has closed."""
    inbox = Inbox(sys.maxsize)  # of the grader's, who sends the next one only after the reply
    while not (message := inbox.next()):
        piece = connection.recv(1 << 20)
        if not piece:
            return None
        inbox.add(piece)
    return message
