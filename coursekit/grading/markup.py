"""A student's text, made so that the pages which nbgrader makes of it show it, and do nothing else.

nbgrader's feedback and formgrader put Markdown into their pages as nbconvert renders it: with its HTML, and links of any kind.
Formgrader's page runs with the instructor's rights.
"""

import base64
import binascii
import re
from collections.abc import Container
from typing import Any

KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")  # a picture in a page runs nothing
_NAME = re.compile(r"[\w.-]{1,200}", re.ASCII)  # nbconvert looks for others in another spelling, and finds nothing
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_LINK = re.compile(r"\](?!\((?:https?://|mailto:|attachment:|[\w./-]*[#)]))(?!: ?https?://)(?=[(:])")
_PICTURE = re.compile(r"attachment:([^)\s\"'>]*)")


def inert(text: str) -> str:
    """Return a text without HTML and without links but to pages; what it said can still be read.

    A space goes where markup would begin: that is right in text, code and formulas alike, wherever they begin and end.
    """
    return _LINK.sub("] ", _TAG.sub("< ", text))


def without_dead_pictures(text: str, shown: Container[str]) -> str:
    """Return a text that shows no picture which is not there: nbgrader's feedback would stop at it."""
    return _PICTURE.sub(lambda match: match[0] if match[1] in shown else match[1], text)


def pictures(attachments: Any) -> dict[str, dict[str, str]]:
    """Return the pictures that lie inside a text cell, as far as they are pictures: nbconvert writes them as they are."""
    found: dict[str, dict[str, str]] = {}
    for name, files in attachments.items() if isinstance(attachments, dict) else []:
        for kind, data in files.items() if isinstance(files, dict) and _NAME.fullmatch(name) else []:
            text = "".join(map(str, data)) if isinstance(data, list) else str(data)
            if kind in KINDS and _is_base64(text):
                found.setdefault(name, {})[kind] = text
    return found


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError):
        return False
