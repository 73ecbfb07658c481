"""Two programs that know one short code find out whether they talk to each other: SPAKE2 (RFC 9382) over TLS.

Each proves that it knows the code and which certificate it sees. A program in between has a certificate of its own, so the
proofs do not fit, and one exchange tests one guess of the code.
"""

import base64
import hmac
import re

from spake2 import SPAKE2_A, SPAKE2_B, SPAKEError

_LEARNER, _ROOM = b"learner", b"room"


class Mismatch(Exception):
    """The other side knows another code, or a program stands between the two."""


class Joiner:
    """The learner's half of an exchange: send `message`, then check what comes back."""

    def __init__(self, code: str):
        self._half = SPAKE2_A(_plain(code), idA=_LEARNER, idB=_ROOM)
        self.message: bytes = self._half.start()

    def prove(self, message: bytes, proof: bytes, fingerprint: bytes) -> bytes:
        """Return this side's proof, once the room's fits the certificate that this side sees; raises Mismatch."""
        key = _finish(self._half, message)
        if not hmac.compare_digest(proof, _proof(key, _ROOM, fingerprint)):
            raise Mismatch
        return _proof(key, _LEARNER, fingerprint)


class Host:
    """The room's half: answer with `message` and `proof`; `fingerprint` is that of its own certificate. Raises Mismatch."""

    def __init__(self, code: str, message: bytes, fingerprint: bytes):
        half = SPAKE2_B(_plain(code), idA=_LEARNER, idB=_ROOM)
        self.message: bytes = half.start()
        key = _finish(half, message)
        self.proof = _proof(key, _ROOM, fingerprint)
        self._expected = _proof(key, _LEARNER, fingerprint)

    def accepts(self, proof: bytes) -> bool:
        """Return whether the learner knew the code and saw the room's own certificate."""
        return hmac.compare_digest(proof, self._expected)


def as_text(data: bytes) -> str:
    """Return bytes as they travel in JSON."""
    return base64.b64encode(data).decode()


def as_bytes(text: object) -> bytes:
    """Return the bytes that a text from elsewhere stands for, none where it is not one of `as_text`."""
    try:
        return base64.b64decode(str(text), validate=True)
    except ValueError:
        return b""


def _plain(code: str) -> bytes:
    """Return the code as both sides spell it: letters alone, in capitals."""
    return re.sub(r"[^A-Z]", "", code.upper()).encode()


def _finish(half: SPAKE2_A | SPAKE2_B, message: bytes) -> bytes:
    try:
        key: bytes = half.finish(message)
        return key
    except (SPAKEError, AssertionError, ValueError) as error:  # no message of this exchange
        raise Mismatch from error


def _proof(key: bytes, side: bytes, fingerprint: bytes) -> bytes:
    return hmac.digest(key, side + fingerprint, "sha256")
