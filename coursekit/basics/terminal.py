"""What a terminal's encoding lacks is printed as the nearest characters that it has: no line ends a command."""

import codecs
import sys
import unicodedata

NEAREST = dict(zip("✔✘•○→·–−×’“”█░µ", '+x*o>---x\'""#.u', strict=True))


def print_anything() -> None:
    """Let stdout and stderr print any character, even where their encoding is Latin-1 or ASCII."""
    codecs.register_error("nearest", _nearest)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="nearest")  # type: ignore[union-attr]


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_plain, error.object[error.start : error.end])), error.end


def _plain(character: str) -> str:
    decomposed = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return NEAREST.get(character) or decomposed or "?"
